package main

import (
	"testing"

	"github.com/matryer/is"
)

func TestUnits(t *testing.T) {
	is := is.New(t)
	for text, want := range map[string]int64{"0": 0, "90": 90, "90s": 90, "1h30m": 5400, "1500ms": 2} {
		var s seconds
		is.NoErr(s.UnmarshalText([]byte(text)))
		is.Equal(int64(s), want)
	}
	for text, want := range map[string]int64{
		"0": 0, "536870912": 512 << 20, "512M": 512 << 20, "512MiB": 512 << 20, "512mb": 512 << 20, "1.5G": 3 << 29, "1T": 1 << 40, "8B": 8,
	} {
		var s byteSize
		is.NoErr(s.UnmarshalText([]byte(text)))
		is.Equal(int64(s), want)
	}
	for _, text := range []string{"", "x", "1h30", "5 s"} {
		is.True(new(seconds).UnmarshalText([]byte(text)) != nil)
	}
	for _, text := range []string{"", "G", "-1", "1KK", "1X", "nan", "inf", "1e30"} {
		is.True(new(byteSize).UnmarshalText([]byte(text)) != nil)
	}
}
