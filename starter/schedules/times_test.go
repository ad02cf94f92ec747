package schedules

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
)

func TestReadCron(t *testing.T) {
	tests := map[string]struct{ text, want, wrong string }{
		"plain":                {text: "0 9 * * 1-5", want: "0 9 * * 1-5 # 0 9 * * 1-5"},
		"names, steps, lists":  {text: "*/5 0,12 1-31/2 JAN-jun Monday,sat", want: "*/5 0,12 1-31/2 JAN-jun Monday,sat # */5 0,12 1-31/2 JAN-jun Monday,sat"},
		"a year and a second":  {text: "1 2 3 4 5 6 2030", want: "1 2 3 4 5 6 2030 # 1 2 3 4 5 6 2030"},
		"a word":               {text: " @daily ", want: "@daily # @daily"},
		"its own comment":      {text: "@daily #night", want: "@daily # @daily: night"},
		"too few":              {text: "0 9 * *", wrong: "has 4 fields, want 5"},
		"none":                 {text: "", wrong: "has 0 fields"},
		"an interval":          {text: "@every 5m", wrong: "use -every for an interval"},
		"a zone":               {text: "CRON_TZ=Asia/Tokyo 0 9 * * *", wrong: "use -timezone Asia/Tokyo instead"},
		"out of range":         {text: "60 9 * * *", wrong: "field 1 (minute): 60 is not within 0 to 59"},
		"no word of the field": {text: "0 mon * * *", wrong: `field 2 (hour): "mon" is not a number`},
		"a range backwards":    {text: "0 9 * * 5-1", wrong: "field 5 (day of the week): the range 5-1 ends before it starts"},
		"no step":              {text: "*/0 9 * * *", wrong: `the step "0" is not a number of 1 or more`},
		"an old year":          {text: "0 9 * * * 1999", wrong: "field 6 (year): 1999 is not within 2000 to 2100"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := readCron(tc.text)
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Fatalf("error %v, want %q", err, tc.wrong)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("read %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

func TestReadEvery(t *testing.T) {
	for text, want := range map[string]client.ScheduleIntervalSpec{
		"90s": {Every: 90 * time.Second}, "6h": {Every: 6 * time.Hour}, "1d": {Every: 24 * time.Hour},
		"1d/9h": {Every: 24 * time.Hour, Offset: 9 * time.Hour}, "7d/1d": {Every: 168 * time.Hour, Offset: 24 * time.Hour},
	} {
		got, err := readEvery(text)
		if err != nil || got != want {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
		if shown := whenOf(&client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{got}})[0]; shown != "every "+strings.Replace(text, "90s", "1m30s", 1) {
			t.Errorf("%s is shown as %s", text, shown)
		}
	}
	for _, text := range []string{"", "0s", "-1h", "1.5s", "500ms", "soon", "d", "-1d", "1d/", "1d/24h", "1d/-1h", "99999999d"} {
		if got, err := readEvery(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
