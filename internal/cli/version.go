package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// build says what this binary was made from. Everything comes from the build
// information that the go tool embeds.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildInfo() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := strings.Trim(bi.Main.Version, "()"); v != "" {
		b.Version = v
	}
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (b build) String() string {
	s := "plimsoll " + b.Version
	if b.Revision != "" && !strings.Contains(b.Version, b.Revision[:min(12, len(b.Revision))]) {
		s += " (" + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return fmt.Sprintf("%s %s %s", s, b.Go, b.Platform)
}

type versionCmd struct {
	outputFlag
}

func (*versionCmd) Examples() []string {
	return []string{"plimsoll version", "plimsoll version --output json"}
}

func (c *versionCmd) Run(a *app) error {
	b := buildInfo()
	if c.Output == "json" {
		return a.printJSON(b)
	}
	_, err := fmt.Fprintln(a.env.Stdout, b)
	return err
}
