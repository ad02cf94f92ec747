// Package workercomponent is a stub of the system workflow of worker controllers.
package workercomponent

import "go.uber.org/fx"

// Module provides nothing.
var Module = fx.Options()
