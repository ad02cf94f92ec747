// Package check contains the tests of the docker folder: the chart, the Compose file and
// the images. It is a separate module, because Helm and Kubernetes require more modules than
// the engine.
package check
