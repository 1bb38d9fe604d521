package web

import (
	_ "embed" // the document
	"net/http"
)

//go:embed openapi.json
var openAPIDocument []byte

func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	writeBytes(w, http.StatusOK, openAPIDocument)
	return nil
}
