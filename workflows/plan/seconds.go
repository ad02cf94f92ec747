package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration in whole seconds. In JSON it is text with a unit, such as "30s".
type Seconds int

// MarshalText returns the duration as seconds: "90s".
func (s Seconds) MarshalText() ([]byte, error) { return []byte(strconv.Itoa(int(s)) + "s"), nil }

// UnmarshalText reads a duration of whole seconds, such as "90s" or "2m".
func (s *Seconds) UnmarshalText(text []byte) error {
	if n, err := strconv.Atoi(strings.TrimSuffix(string(text), "s")); err == nil && strings.HasSuffix(string(text), "s") {
		*s = Seconds(n) // also what is too long for a time.Duration
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d%time.Second != 0 {
		return fmt.Errorf("invalid duration %.40q: want whole seconds, such as 30s or 2m", text)
	}
	*s = Seconds(d / time.Second)
	return nil
}
