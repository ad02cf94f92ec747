package harness

// NoLog is a logger that writes nothing.
type NoLog struct{}

// Debug writes nothing.
func (NoLog) Debug(string, ...any) {}

// Info writes nothing.
func (NoLog) Info(string, ...any) {}

// Warn writes nothing.
func (NoLog) Warn(string, ...any) {}

// Error writes nothing.
func (NoLog) Error(string, ...any) {}
