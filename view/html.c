/* Writes text and pictures of a page without scripts (html.h). */
#include "view/html.h"

#include <math.h>

void html_text(pl_buf *out, const char *text)
{
    const size_t len = strlen(text);
    size_t n;
    for (size_t at = 0; at<len; at += n> 0 ? n : 1) {
        n = pl_utf8_length(text + at, len - at);
        /* XML does not allow U+FFFE and U+FFFF, not even as character references */
        if (n == 0 || (n == 3 && memcmp(text + at, "\xef\xbf", 2) == 0 &&
                       (uint8_t)text[at + 2] >= 0xbe))
            pl_buf_printf(out, "\xef\xbf\xbd");
        else if (text[at] == '\n' || text[at] == '\t')
            pl_buf_printf(out, "%c", text[at]);
        else if (pl_utf8_steers(text + at, n))
            continue;
        else if (n == 1 && strchr("<>&\"'", text[at]))
            pl_buf_printf(out, "&#%d;", text[at]);
        else
            pl_buf_printf(out, "%.*s", (int)n, text + at);
    }
}

/* ---- charts ---- */
enum { WIDTH = 720, HEIGHT = 260, LEFT = 48, RIGHT = 110, TOP = 10, BOTTOM = 34 };

typedef struct scale {
    double low, high;
} scale;

static double chart_x(double percent)
{
    return LEFT + percent / 100 * (WIDTH - LEFT - RIGHT);
}

static double chart_y(const scale *s, double value)
{
    return TOP + (s->high - value) / (s->high - s->low) * (HEIGHT - TOP - BOTTOM);
}

/* Returns the line's last point that can be drawn, as x and y, or NULL. */
static const double *last_point(const html_line *l)
{
    for (size_t i = l->n; i-- > 0;)
        if (isfinite(l->xy[2 * i + 1]))
            return &l->xy[2 * i];
    return NULL;
}

static void begin_picture(pl_buf *out, const char *label, double height)
{
    pl_buf_printf(out,
                  "<div class=\"scroll\"><svg viewBox=\"0 0 %.0f %.0f\" "
                  "role=\"img\" aria-label=\"",
                  (double)WIDTH, height);
    html_text(out, label);
    pl_buf_printf(out, "\">");
}

void html_chart(pl_buf *out, const char *label, const html_line *lines, size_t n_lines)
{
    scale s = {INFINITY, -INFINITY};
    for (size_t l = 0; l < n_lines; l++)
        for (size_t i = 0; i < lines[l].n; i++) {
            const double value = lines[l].xy[2 * i + 1];
            s.low = isfinite(value) ? fmin(s.low, value) : s.low;
            s.high = isfinite(value) ? fmax(s.high, value) : s.high;
        }
    /* the padding is at least 1e-9 of the largest value: rounding errors do not show */
    const double pad = fmax(0.05 * (s.high - s.low), fmax(1e-3, 1e-9 * fabs(s.high)));
    s.low -= pad;
    s.high += pad;
    if (!isfinite(s.low) || !isfinite(s.high))
        return;
    begin_picture(out, label, HEIGHT);
    /* the smallest round number (1, 2 or 5 times a power of ten) that is at least a
     * fifth of the range */
    const double raw = (s.high - s.low) / 5, power = pow(10, floor(log10(raw)));
    const double step = raw <= power       ? power
                        : raw <= 2 * power ? 2 * power
                        : raw <= 5 * power ? 5 * power
                                           : 10 * power;
    const int places = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    for (double v = ceil(s.low / step) * step; v <= s.high; v += step)
        pl_buf_printf(out,
                      "<path class=\"axis\" d=\"M%d %.1fH%d\"/><text x=\"%d\" "
                      "y=\"%.1f\" text-anchor=\"end\">%.*f</text>",
                      LEFT, chart_y(&s, v), WIDTH - RIGHT, LEFT - 8, chart_y(&s, v) + 4,
                      places, v);
    for (int percent = 0; percent <= 100; percent += 20)
        pl_buf_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>",
                      chart_x(percent), HEIGHT - BOTTOM + 18, percent);
    pl_buf_printf(out, "<text x=\"%d\" y=\"%d\">percent of each arm's training</text>",
                  LEFT, HEIGHT - 4);
    for (size_t l = 0; l < n_lines; l++) {
        /* Draws a line. A value that is not finite (training may diverge) leaves a gap,
         * and so does a step back in x. */
        const double *last = last_point(&lines[l]);
        bool joins = false;
        if (!last)
            continue;
        pl_buf_printf(out, "<path class=\"s%d %s\" d=\"", lines[l].colour % 8,
                      lines[l].weak ? "line weak" : "line");
        for (const double *at = lines[l].xy; at <= last; at += 2) {
            const bool is = isfinite(at[1]);
            if (is)
                pl_buf_printf(out, "%s%.1f %.1f", joins && at[0] >= at[-2] ? "L" : "M",
                              chart_x(at[0]), chart_y(&s, at[1]));
            joins = is;
        }
        pl_buf_printf(out, "\"><title>");
        html_text(out, lines[l].name);
        pl_buf_printf(out,
                      "</title></path><circle class=\"dot s%d\" cx=\"%.1f\" "
                      "cy=\"%.1f\" r=\"3\"/>",
                      lines[l].colour % 8, chart_x(last[0]), chart_y(&s, last[1]));
    }
    /* Writes each line's name and last value at its end. Goes from the highest line to
     * the lowest, and moves a name down if it would overlap the name above it. */
    enum { NAMES_MAX = 14, STEP = 14 };
    bool done[NAMES_MAX] = {false};
    const size_t n = n_lines < NAMES_MAX ? n_lines : NAMES_MAX;
    double before = TOP - STEP;
    for (size_t k = 0; k < n; k++) {
        const html_line *best = NULL;
        for (size_t l = 0; l < n; l++)
            if (!done[l] && last_point(&lines[l]) &&
                (!best || last_point(&lines[l])[1] > last_point(best)[1]))
                best = &lines[l];
        if (!best)
            break;
        const double value = last_point(best)[1];
        done[best - lines] = true;
        before = fmax(before + STEP, chart_y(&s, value) + 4);
        pl_buf_printf(out, "<text class=\"name s%d\" x=\"%d\" y=\"%.1f\">",
                      best->colour % 8, WIDTH - RIGHT + 8, before);
        html_text(out, best->name);
        pl_buf_printf(out, " %.3f</text>", value);
    }
    pl_buf_printf(out, "</svg></div>\n");
}

/* ---- grids ---- */
void html_draw_grid(pl_buf *out, const html_grid *g, double range[2])
{
    const bool named = g->n_rows <= 24;
    const double row = named ? 20 : 7, left = named ? 84 : 4;
    const double cell = (WIDTH - left) / (double)(g->n_columns > 0 ? g->n_columns : 1);
    range[0] = INFINITY;
    range[1] = -INFINITY;
    for (size_t i = 0; i < g->n_rows * g->n_columns; i++)
        if (isfinite(g->values[i])) {
            range[0] = fmin(range[0], g->values[i]);
            range[1] = fmax(range[1], g->values[i]);
        }
    begin_picture(out, g->label, row * (double)g->n_rows + 4);
    for (size_t r = 0; r < g->n_rows; r++) {
        if (named) {
            pl_buf_printf(out, "<text x=\"0\" y=\"%.1f\">", row * (double)r + 14);
            html_text(out, g->names[r]);
            pl_buf_printf(out, "</text>");
        }
        for (size_t c = 0; c < g->n_columns; c++) {
            const double value = g->values[r * g->n_columns + c],
                         share = (value - range[0]) / (range[1] - range[0]);
            int rgb[3];
            if (!isfinite(value))
                continue;
            /* a colour between dark blue (share 0) and pale yellow (share 1) */
            static const double stops[3][3] = {
                {22, 63, 107}, {95, 158, 166}, {236, 229, 211}};
            const double t = 2 * fmin(1, fmax(0, range[1] > range[0] ? share : 0));
            const int k = t < 1 ? 0 : 1;
            for (int i = 0; i < 3; i++)
                rgb[i] = (int)(stops[k][i] + (stops[k + 1][i] - stops[k][i]) * (t - k) +
                               0.5);
            pl_buf_printf(out,
                          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\" "
                          "fill=\"#%02x%02x%02x\"/>",
                          left + cell * (double)c, row * (double)r,
                          cell - (cell > 4 ? 1 : 0), row - 1, rgb[0], rgb[1], rgb[2]);
        }
    }
    pl_buf_printf(out, "</svg></div>\n");
}
