package stream

const kernelTimesHere = true
