//go:build !linux

package stream

const kernelTimesHere = false
