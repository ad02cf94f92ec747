package schedules

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/activities/textutil"
	"weft/starter/plaintext"
	"weft/starter/usage"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// Times say when a schedule starts runs, in the words of the command's flags.
type Times struct {
	Cron, Every       []string
	Timezone, Overlap string
	Jitter, Catchup   time.Duration
}

// overlaps are what a schedule does while a run of it is open, the default first.
var overlaps = []struct {
	name   string
	policy enumspb.ScheduleOverlapPolicy
}{
	{"skip", enumspb.SCHEDULE_OVERLAP_POLICY_SKIP},
	{"buffer_one", enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ONE},
	{"buffer_all", enumspb.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL},
	{"cancel_other", enumspb.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER},
	{"terminate_other", enumspb.SCHEDULE_OVERLAP_POLICY_TERMINATE_OTHER},
	{"allow_all", enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL},
}

// OverlapNames returns the values of Overlap, the default first.
func OverlapNames() []string {
	var out []string
	for _, o := range overlaps {
		out = append(out, o.name)
	}
	return out
}

// MinCatchup is the shortest catch-up window that Temporal accepts.
const MinCatchup = 10 * time.Second

// Spec checks the times and returns them for Temporal.
func (f *Times) Spec() (client.ScheduleSpec, error) {
	spec := client.ScheduleSpec{Jitter: f.Jitter, TimeZoneName: f.Timezone}
	if len(f.Cron)+len(f.Every) == 0 {
		return spec, usage.Errorf("missing times; set -cron \"0 9 * * 1-5\" or -every 6h")
	}
	for _, text := range f.Cron {
		cron, err := readCron(text)
		if err != nil {
			return spec, err
		}
		spec.CronExpressions = append(spec.CronExpressions, cron)
	}
	for _, text := range f.Every {
		interval, err := readEvery(text)
		if err != nil {
			return spec, err
		}
		spec.Intervals = append(spec.Intervals, interval)
	}
	if f.Timezone != "" && len(f.Cron) == 0 {
		return spec, usage.Errorf("-timezone needs -cron")
	}
	return spec, nil
}

func (f *Times) policy() enumspb.ScheduleOverlapPolicy {
	for _, o := range overlaps {
		if o.name == f.Overlap {
			return o.policy
		}
	}
	return enumspb.SCHEDULE_OVERLAP_POLICY_UNSPECIFIED
}

type cronField struct {
	name      string
	low, high int
	words     string
}

// cronFields are the fields, seconds first and the year last.
var cronFields = []cronField{
	{"second", 0, 59, ""}, {"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of the month", 1, 31, ""},
	{"month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"},
	{"day of the week", 0, 7, "sun mon tue wed thu fri sat"}, {"year", 2000, 2100, ""},
}

var cronWords = []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"}

// readCron checks a cron expression and adds its text as comment: Temporal keeps only that.
func readCron(text string) (string, error) {
	body, comment, _ := strings.Cut(strings.TrimSpace(text), "#")
	body = strings.TrimSpace(body)
	fields := strings.Fields(body)
	if len(fields) > 0 && strings.Contains(fields[0], "TZ=") {
		return "", usage.Errorf("-cron %q has a time zone; use -timezone %s instead", text, fields[0][strings.Index(fields[0], "=")+1:])
	}
	whole := body + " # " + body + plaintext.If(strings.TrimSpace(comment) != "", ": %s", strings.TrimSpace(comment))
	if len(fields) == 1 && slices.Contains(cronWords, body) {
		return whole, nil
	}
	if strings.HasPrefix(body, "@") {
		return "", usage.Errorf("-cron %q is not one of %s; use -every for an interval", text, strings.Join(cronWords, ", "))
	}
	first := 1
	switch len(fields) {
	case 5, 6:
	case 7:
		first = 0
	default:
		return "", usage.Errorf("-cron %q has %d fields, want 5: minute, hour, day of the month, month, day of the week (6 with a year at the end, 7 with seconds in front)", text, len(fields))
	}
	for i, field := range fields {
		if err := cronFields[first+i].fits(field); err != nil {
			return "", usage.Errorf("-cron %q: field %d (%s): %v", text, i+1, cronFields[first+i].name, err)
		}
	}
	return whole, nil
}

func (c *cronField) value(word string) (int, error) {
	n, err := strconv.Atoi(word)
	for at, name := range strings.Fields(c.words) {
		if len(word) >= len(name) && strings.EqualFold(word[:len(name)], name) {
			n, err = at+c.low, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", word)
	}
	if n < c.low || n > c.high {
		return 0, fmt.Errorf("%d is not within %d to %d", n, c.low, c.high)
	}
	return n, nil
}

// fits looks at one field: numbers, names, ranges and steps, separated by commas.
func (c *cronField) fits(field string) error {
	for _, part := range strings.Split(field, ",") {
		span, step, stepped := strings.Cut(part, "/")
		if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1) {
			return fmt.Errorf("the step %q is not a number of 1 or more", step)
		}
		if span == "*" || span == "?" {
			continue
		}
		from, to, ranged := strings.Cut(span, "-")
		low, err := c.value(from)
		if err != nil {
			return err
		}
		if !ranged {
			continue
		}
		high, err := c.value(to)
		if err != nil {
			return err
		}
		if high < low {
			return fmt.Errorf("the range %s ends before it starts", span)
		}
	}
	return nil
}

func readEvery(text string) (client.ScheduleIntervalSpec, error) {
	var out client.ScheduleIntervalSpec
	age, offset, shifted := strings.Cut(text, "/")
	var err error
	if out.Every, err = readAge(age); err != nil || out.Every < time.Second || out.Every%time.Second != 0 {
		return out, usage.Errorf("-every is %q, want whole seconds, such as 90s, 6h, 1d, or 1d/9h with an offset", text)
	}
	if !shifted {
		return out, nil
	}
	if out.Offset, err = readAge(offset); err != nil || out.Offset < 0 || out.Offset >= out.Every {
		return out, usage.Errorf("-every is %q: want an offset %q of 0s or more and less than %s", text, offset, age)
	}
	return out, nil
}

func readAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

func age(d time.Duration) string {
	if d > 0 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return textutil.Duration(d)
}

// whenOf says when a schedule starts runs, in the words of the flags where it was made here.
func whenOf(spec *client.ScheduleSpec) []string {
	var out []string
	if spec == nil {
		return out
	}
	for _, c := range spec.Calendars {
		out = append(out, "cron "+cmp.Or(c.Comment, "-"))
	}
	for _, c := range spec.CronExpressions {
		out = append(out, "cron "+c)
	}
	for _, i := range spec.Intervals {
		text := "every " + age(i.Every)
		text += plaintext.If(i.Offset > 0, "/%s", age(i.Offset))
		out = append(out, text)
	}
	return out
}

func overlapName(p enumspb.ScheduleOverlapPolicy) string {
	for _, o := range overlaps {
		if o.policy == p {
			return o.name
		}
	}
	return overlaps[0].name // what Temporal does without one
}
