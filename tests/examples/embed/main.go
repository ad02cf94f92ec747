// Command embed is a custom worker: bin/worker, with the same settings, and
// two Go functions as tools, which flows bind by their names, such as picnic.json beside it.
package main

import (
	"context"
	"fmt"
	"time"

	"weft/activities/tool"
	"weft/worker/host"
)

func main() {
	host.Main(
		tool.Func("weather", "Tells the weather of a city on a day.", weather, tool.Pure()),
		tool.Func("reserve", "Reserves a table in a park. It cannot be undone.", reserve, tool.RetryNever(), tool.Timeout(10*time.Second)),
	)
}

// WeatherIn becomes the JSON Schema that the model sees.
type WeatherIn struct {
	City string `json:"city" jsonschema:"the city's English name"`
	Day  int    `json:"day,omitempty" jsonschema:"days from today; 0 is today"`
}

// WeatherOut is given to the model as JSON.
type WeatherOut struct {
	Sky     string `json:"sky"`
	Degrees int    `json:"degrees"`
}

func weather(_ context.Context, in WeatherIn) (WeatherOut, error) {
	if in.City != "Oslo" {
		// The model gets the message and can call again.
		return WeatherOut{}, fmt.Errorf("there is no forecast for %q, only for Oslo", in.City)
	}
	return WeatherOut{Sky: "clear", Degrees: 21 + in.Day}, nil
}

// ReserveIn is the input of a reservation.
type ReserveIn struct {
	Park   string `json:"park"`
	People int    `json:"people"`
}

func reserve(ctx context.Context, in ReserveIn) (string, error) {
	// The key is the same for all attempts of one call, so that the reservation system can detect
	// a repeated request.
	return fmt.Sprintf("a table for %d in %s, reference %s", in.People, in.Park, tool.IdempotencyKey(ctx)), nil
}
