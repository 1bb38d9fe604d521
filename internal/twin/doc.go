// Package twin simulates a cluster of inference engines that does not exist:
// catalogues of models, accelerators and engines, the time of a scheduler step
// from its FLOPs and bytes, the scheduler with its paged KV memory, and a server
// that runs the same engine in real time behind the OpenAI APIs.
//
// The engine advances by scheduler steps and owns no clock: a driver tells it
// when a step begins and how the time passes. The package never measures a
// request, never opens a connection to anybody, and shares neither timing nor
// framing code with the client (it may not import load or stream), so that the
// two cannot hide each other's errors.
package twin
