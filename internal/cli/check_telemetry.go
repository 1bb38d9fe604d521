package cli

import (
	"net/url"
	"slices"
	"strings"

	"plimsoll/internal/conduct"
	"plimsoll/internal/report"
	"plimsoll/internal/telemetry"
)

// writeTelemetry writes what was found of telemetry, what it lacks, and how to get
// what is not there.
func writeTelemetry(b *strings.Builder, f *conduct.Facts) {
	line := func(name, text string) {
		for i, l := range report.Wrap(report.Printable(text), report.Width-13) {
			if i > 0 {
				name = ""
			}
			b.WriteString(report.Pad(name, 12) + l + "\n")
		}
	}
	more := func(text string) {
		for _, l := range report.Wrap(report.Printable(text), report.Width-15) {
			b.WriteString(strings.Repeat(" ", 14) + l + "\n")
		}
	}
	b.WriteString("\n")
	name := "telemetry"
	if len(f.Telemetry) == 0 {
		line(name, "none was found")
		name = ""
	}
	for _, t := range f.Telemetry {
		line(name, t.URL+": "+describeFound(&t))
		name = ""
		for _, m := range report.Missing(t.Missing) {
			more("lacks " + m)
		}
	}
	for _, h := range f.Hints {
		line("", "not there, "+h.Source+": "+h.Text)
	}
}

// describeFound says what one endpoint of telemetry is.
func describeFound(t *conduct.Telemetry) string {
	var s string
	switch {
	case len(t.Titles) > 0:
		s = strings.Join(t.Titles, ", ")
	case t.State == telemetry.StateAuthFailed:
		s = "a key is asked for; name it with api-key-env at data.telemetry of a scenario"
	case t.State == telemetry.StateOK:
		s = "of no known source"
	}
	if t.Text != "" {
		if s != "" {
			s += "; "
		}
		s += t.Text
	}
	if t.State == telemetry.StateOK && !t.Used {
		s += " (a run would not read it)"
	}
	return s
}

// describeReading says what a run would read of telemetry, a sentence each.
func describeReading(p *conduct.Plan) []string {
	every := ""
	if p.TelemetryEveryS > 0 {
		every = " every " + report.Seconds(p.TelemetryEveryS)
	}
	var out []string
	for _, u := range p.Telemetry {
		out = append(out, u+every)
	}
	if len(p.TelemetrySearch) == 0 {
		return out
	}
	out = append(out, "asked once, read"+every+" where there is a page: "+strings.Join(p.TelemetrySearch, " "))
	var order []string
	ports := map[string][]string{}
	for _, raw := range p.TelemetryHost {
		u, err := url.Parse(raw)
		if err != nil {
			continue
		}
		if ports[u.Hostname()] == nil {
			order = append(order, u.Hostname())
		}
		if port := u.Port(); !slices.Contains(ports[u.Hostname()], port) {
			ports[u.Hostname()] = append(ports[u.Hostname()], port)
		}
	}
	for _, host := range order {
		out = append(out, "likewise, if it is this machine or in a private network, "+host+" at ports "+strings.Join(ports[host], " "))
	}
	return out
}
