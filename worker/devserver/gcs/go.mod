// This module stands in for the one of the same path in the embedded server: see storage.go.
module cloud.google.com/go/storage

go 1.26.8

require google.golang.org/api v0.276.0
