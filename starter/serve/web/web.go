// Package web has the web page of the HTTP server: one document, one script and one style sheet. They use
// only the API that other clients use.
package web

import (
	"embed"
	"net/http"
)

//go:embed page.html page.css page.js
var files embed.FS

// policy lets the page load and send nothing but from and to its own server, and run no script but its own.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Serve sends a file of the page.
func Serve(w http.ResponseWriter, r *http.Request, name string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, files, name)
}
