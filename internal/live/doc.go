// Package live is the running test, once a second: it takes the requests that
// end, the counters of the load, what the servers say and how well this process
// itself keeps up, and makes one numbered snapshot of them for whoever watches,
// with the marks of what happened. It owns the snapshots and the marks. It never
// slows the load: what it takes comes through bounded queues whose losses are
// counted and shown, and it keeps nothing that is not on disk as well. Its figures
// are provisional; those of a run that is over are made from its records (stats,
// align).
package live
