package main

import (
	"context"
	"log/slog"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// slogger adapts the standard library's logger for the server.
type slogger struct{ to *slog.Logger }

var _ log.SLogWrapper = slogger{}

func (s slogger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if !s.to.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	s.to.LogAttrs(ctx, level, msg, attrs...)
}

// The methods of the server's logger.

func (s slogger) Debug(msg string, tags ...tag.Tag)  { s.log(slog.LevelDebug, msg, tags) }
func (s slogger) Info(msg string, tags ...tag.Tag)   { s.log(slog.LevelInfo, msg, tags) }
func (s slogger) Warn(msg string, tags ...tag.Tag)   { s.log(slog.LevelWarn, msg, tags) }
func (s slogger) Error(msg string, tags ...tag.Tag)  { s.log(slog.LevelError, msg, tags) }
func (s slogger) DPanic(msg string, tags ...tag.Tag) { s.log(slog.LevelError, msg, tags) }
func (s slogger) Panic(msg string, tags ...tag.Tag)  { s.log(slog.LevelError, msg, tags) }
func (s slogger) Fatal(msg string, tags ...tag.Tag)  { s.log(slog.LevelError, msg, tags) }
func (s slogger) SLog() *slog.Logger                 { return s.to }
