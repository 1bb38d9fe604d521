// Package detail is what the panel draws of one run: signals as pyramids of
// cells, requests as compact columns, and the answers to every question that a
// lane, a table or a chart asks of them, in the shapes of the panel's JSON. One
// Store serves a run that goes on, growing, and one on disk, whose files lie in
// the folder detail of the run. It owns these shapes, the files and the language
// of filters. It never draws, never serves, defines no figure of its own (stats)
// and keeps no record whole: the events of a request are read from its part.
package detail
