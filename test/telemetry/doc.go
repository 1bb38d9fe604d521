// Package telemetry runs the real binary beside real sources of telemetry, in
// real time: the twin's pages, Prometheus, node_exporter, llama.cpp's server, and
// exporters that are dead, slow or wrong. It owns the proof that what servers say
// ends up on the client's clock and that reading it disturbs nothing; it holds no
// code that anything imports, and never reaches beyond this machine.
package telemetry
