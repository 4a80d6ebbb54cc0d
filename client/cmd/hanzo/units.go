package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// A seconds is a number of seconds, or a duration.
type seconds int64

// UnmarshalText reads 90, 90s or 1h30m.
func (s *seconds) UnmarshalText(b []byte) error {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		*s = seconds(n)
		return nil
	}
	d, err := time.ParseDuration(string(b))
	if err != nil {
		return errors.New("want seconds, or a duration as 1h30m")
	}
	*s = seconds(math.Ceil(d.Seconds()))
	return nil
}

// A byteSize is a number of bytes.
type byteSize int64

// units are binary ones, however they are written.
var units = map[string]float64{
	"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
}

// UnmarshalText reads 536870912, 512M, 512MiB or 1.5G.
func (s *byteSize) UnmarshalText(b []byte) error {
	text := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(string(b)), "IB"), "B")
	end := strings.TrimRight(text, "KMGT")
	n, err := strconv.ParseFloat(end, 64)
	unit, ok := units[text[len(end):]]
	if n *= unit; err != nil || !ok || !(n >= 0 && n < math.MaxInt64) {
		return errors.New("want bytes, or a size as 512M or 4GiB")
	}
	*s = byteSize(n)
	return nil
}
