package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/proto"
)

// BenchmarkReplay replays the histories stored by BENCH_HISTORIES=DIR make bench. It is for profiling; the bench does the measuring.
func BenchmarkReplay(b *testing.B) {
	dir := os.Getenv(keptHistories)
	if dir == "" {
		b.Skip(keptHistories + " names no folder")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+historySuffix))
	if err != nil || len(files) == 0 {
		b.Fatalf("%s has no histories: %v", dir, err)
	}
	for _, file := range files {
		b.Run(strings.TrimSuffix(filepath.Base(file), historySuffix), func(b *testing.B) {
			raw, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			var h historypb.History
			if err := proto.Unmarshal(raw, &h); err != nil {
				b.Fatal(err)
			}
			replay := replayOf(&h)
			before, used := allocations(), cpuOf(os.Getpid())
			for b.Loop() {
				if err := replay(); err != nil {
					b.Fatal(err)
				}
			}
			n := float64(b.N * len(h.Events))
			b.ReportMetric(float64((cpuOf(os.Getpid())-used).Nanoseconds())/n, "cpu-ns/event")
			b.ReportMetric((allocations()-before)/n, "allocs/event")
			b.ReportMetric(float64(len(h.Events)), "events")
		})
	}
}
