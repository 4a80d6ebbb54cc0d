package runtimetest

import (
	"slices"
	"testing"
	"time"
)

// Turns runs all in turn for as long as the benchmark goes on, and returns and
// reports their medians in milliseconds. What takes turns can be compared on a
// machine that others are busy on too.
func Turns(b *testing.B, names []string, run ...func()) []float64 {
	b.Helper()
	return TurnsAfter(b, func() {}, names, run...)
}

// TurnsAfter is Turns with something before each that is none of its time, as
// when the one before leaves work behind.
func TurnsAfter(b *testing.B, before func(), names []string, run ...func()) []float64 {
	b.Helper()
	took := make([][]float64, len(run))
	for b.Loop() {
		for i, f := range run {
			before()
			start := time.Now()
			f()
			took[i] = append(took[i], float64(time.Since(start))/1e6)
		}
	}
	medians := make([]float64, len(run))
	for i, list := range took {
		slices.Sort(list)
		medians[i] = list[len(list)/2]
		b.ReportMetric(medians[i], names[i]+"-ms")
		b.ReportMetric(list[0], names[i]+"-min-ms")
	}
	b.ReportMetric(0, "ns/op")
	return medians
}
