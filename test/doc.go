// Package test runs the real binary as processes over loopback sockets, in real
// time. It owns the proof that the parts work together and what they withstand;
// it holds no code that anything imports, and never reaches beyond this machine.
package test
