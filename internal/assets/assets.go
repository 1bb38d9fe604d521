// Package assets is the front end as it was built, inside the binary: what vite
// wrote into files/dist, and until then one page that says how to get it. It owns
// which of the two there is. It never serves anything and knows no URL.
package assets

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed all:files
var files embed.FS

// Panel returns the files of the front end by their paths, index.html among them.
// Built is false when the binary was made without them: then index.html, alone, is
// the page that says so.
func Panel() (panel map[string][]byte, built bool) { return panelOf(files) }

// panelOf is Panel for a given folder.
func panelOf(all fs.FS) (panel map[string][]byte, built bool) {
	const dist = "files/dist/"
	panel = map[string][]byte{}
	err := fs.WalkDir(all, "files", func(path string, d fs.DirEntry, err error) error {
		if name, ok := strings.CutPrefix(path, dist); ok && err == nil && !d.IsDir() {
			panel[name], err = fs.ReadFile(all, path)
		}
		return err
	})
	if _, built = panel["index.html"]; !built {
		panel = map[string][]byte{}
		panel["index.html"], err = fs.ReadFile(all, "files/missing.html")
	}
	if err != nil {
		panic("BUG: embedded files: " + err.Error())
	}
	return panel, built
}
