//go:build !unix

package web

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }
