package config

import (
	"context"
	"errors"
	"testing"
)

func TestPlainWords(t *testing.T) {
	err := plain(context.Background(), errors.New(`failed reaching server: rpc error: code = Unavailable desc = "no children to pick from"`))
	if err == nil || err.Error() != "no address is known for that host; the address is host:port" {
		t.Errorf("a host that is not known: %v", err)
	}
}
