// Package workercomponent replaces the system workflow of worker controllers.
package workercomponent

import "go.uber.org/fx"

// Module provides nothing.
var Module = fx.Options()
