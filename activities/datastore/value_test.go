package datastore

import (
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
)

// TestValueOf checks that a numeric column that a float64 cannot hold is read as a string.
func TestValueOf(t *testing.T) {
	for raw, want := range map[string]string{"7": "7", "0.1": "0.1", "123456789012345678901234567890": "123456789012345678901234567890", "1e400": `"1e400"`, "NaN": `"NaN"`} {
		if got := valueOf(pgtype.NumericOID, []byte(raw)); string(got.JSON()) != want {
			t.Errorf("%s is %s, want %s", raw, got.JSON(), want)
		}
	}
}
