//go:build !unix

package twin

import "time"

// writeNow writes nothing: everything goes through the queue here.
func writeNow(uintptr, []byte) int { return 0 }

// processTime knows nothing here.
func processTime() (time.Duration, bool) { return 0, false }
