// Package conduct takes one run from a scenario to a verdict: it looks at the
// target, makes the run's folder, starts the watch over this process, applies
// the load, records, drains and writes the summary. It also answers what an
// endpoint can do (check). It owns the order of these things and no figure,
// format or policy of its own, and it never repeats a request.
package conduct
