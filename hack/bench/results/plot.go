package results

import (
	"fmt"
	"image/color"
	"io"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// colours can be told apart by people who see no red or no green.
var colours = map[Way]color.Color{
	HandOff: color.Gray{140}, Bare: color.Gray{60}, Original: color.RGBA{213, 94, 0, 255},
	PerCall: color.RGBA{0, 114, 178, 255}, Shared: color.RGBA{0, 158, 115, 255},
}

const (
	plotWidth  = 9 * vg.Inch
	plotHeight = 7 * vg.Inch
)

// Plot writes an SVG of the empty handler on one instance: latency and throughput
// over the number of callers, in both languages.
func (s Set) Plot(w io.Writer) error {
	rows := [][]*plot.Plot{}
	for _, panel := range []struct {
		title string
		value func(Summary) float64
	}{
		{"p50, ms", func(y Summary) float64 { return y.P50 }},
		{"calls a second", func(y Summary) float64 { return y.PerSecond }},
	} {
		row := []*plot.Plot{}
		for _, language := range Languages {
			p, err := s.panel(language, panel.title, panel.value)
			if err != nil {
				return err
			}
			row = append(row, p)
		}
		rows = append(rows, row)
	}
	svg := vgsvg.New(plotWidth, plotHeight)
	tiles := draw.Tiles{Rows: len(rows), Cols: len(Languages), PadX: 6 * vg.Millimeter, PadY: 6 * vg.Millimeter,
		PadLeft: 2 * vg.Millimeter, PadRight: 4 * vg.Millimeter, PadTop: 2 * vg.Millimeter, PadBottom: 2 * vg.Millimeter}
	for j, row := range plot.Align(rows, tiles, draw.New(svg)) {
		for i, canvas := range row {
			rows[j][i].Draw(canvas)
		}
	}
	_, err := svg.WriteTo(w)
	return err
}

func (s Set) panel(language, title string, value func(Summary) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s, empty handler, one instance", language)
	p.X.Label.Text, p.Y.Label.Text = "callers at once", title
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Add(plotter.NewGrid())
	for _, way := range Ways {
		points := s.points(language, way, value)
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color = colours[way], colours[way]
		line.Width, dots.Shape = vg.Points(1.5), draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(titles[way], line, dots)
	}
	p.X.Tick.Marker = s.callerTicks()
	spread(&p.X, 1)
	spread(&p.Y, 6)
	return p, nil
}

// spread keeps an axis of one value from having no length, and leaves room at the
// top for the legend.
func spread(axis *plot.Axis, room float64) {
	if axis.Min <= 0 || axis.Min > axis.Max { // Nothing is drawn.
		axis.Min, axis.Max = 1, 1
	}
	axis.Min, axis.Max = axis.Min/1.3, axis.Max*1.3*room
}

// points are the numbers of a way over the callers. A logarithmic axis has no
// place for nothing.
func (s Set) points(language string, way Way, value func(Summary) float64) plotter.XYs {
	var points plotter.XYs
	for _, cell := range s.Cells() {
		slots, measured := s[cell][way]
		if !measured || cell.Language != language || cell.Handler != "empty" || cell.Instances != 1 || cell.Paced {
			continue
		}
		if v := value(Summarize(slots)); v > 0 {
			points = append(points, plotter.XY{X: float64(cell.Callers), Y: v})
		}
	}
	return points
}

func (s Set) callerTicks() plot.ConstantTicks {
	var callers []int
	for cell := range s {
		callers = append(callers, cell.Callers)
	}
	slices.Sort(callers)
	var ticks plot.ConstantTicks
	for _, count := range slices.Compact(callers) {
		ticks = append(ticks, plot.Tick{Value: float64(count), Label: strconv.Itoa(count)})
	}
	return ticks
}
