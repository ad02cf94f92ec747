// Package check holds the tests of what stands in this folder: the chart, the compose file and
// the images. It is a module of its own, because Helm and Kubernetes bring more modules than
// the engine has.
package check
