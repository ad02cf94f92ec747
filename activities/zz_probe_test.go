package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestProbeDeep(t *testing.T) {
	var b strings.Builder
	n := 5200
	b.WriteString(`{"definitions":{`)
	for i := range n {
		fmt.Fprintf(&b, `"%d":{"allOf":[{"$ref":"#/definitions/%d"}]},`, i, i+1)
	}
	fmt.Fprintf(&b, `"%d":{"items":{"$ref":"#/definitions/0"}}},"$ref":"#/definitions/0"}`, n)
	s := b.String()
	fmt.Println(len(s))
	for _, d := range []int{1, 4, 16, 64} {
		t0 := time.Now()
		c := check(context.Background(), []byte(s), strings.Repeat("[", d)+strings.Repeat("]", d))
		fmt.Printf("%d %v %.200v\n", d, time.Since(t0), fmt.Sprint(c))
	}
}
