/* Chooses settings for a slow link (train_link.h). */
#include "measure/measure.h"
#include "measure/train_link.h"

#include <stdio.h>

pl_status train_link_choose(train_dial *d, pl_run *r)
{
    enum { MEASURED_MS = 500 };
    const config *c = &r->cfg;
    double bytes[2] = {0, 0}, rate = 0;
    const int n_before = d->keys.n;
    pl_outer outer;
    PL_CHECK(config_outer(c, &outer));
    const char *why = c->keep_states ? "store.keep_states needs every state" : NULL;
    if (!pl_phase_repeats(&outer))
        why = "the states of this outer.method, or train.state=local, cannot be made "
              "again";
    if (why) {
        say("link     %s: no key is chosen, because %s", d->link, why);
        return PL_OK;
    }
    /* the inner steps of a phase, for one worker alone */
    const measured_workers one = {1, (int)c->threads, r->n_gpus};
    PL_CHECK(measure_workers(c, &one, 1e-3 * MEASURED_MS, &rate));
    const double steps_s =
        (double)c->tau * (double)c->batch * (double)c->context / rate;
    for (int level = 0; level < SLOW_LINK_LEVELS; level++) {
        for (int i = 0; i < SLOW_LINK_PAIRS_MAX && slow_link_levels[level].key[i]; i++)
            train_dial_choose(d, slow_link_levels[level].key[i],
                              slow_link_levels[level].value[i], "for --link");
        if (level > 0)
            PL_CHECK(train_dial_lay(d, r));
        PL_CHECK(slow_link_phase_bytes(c, r->topology, &bytes[level > 0]));
        if (level == 0)
            bytes[1] = bytes[0];
        if (8 * bytes[1] / d->link_bits <= steps_s)
            break;
    }
    char text[5][16], pairs[256] = "";
    for (int i = n_before; i < d->keys.n; i++)
        snprintf(pairs + strlen(pairs), sizeof pairs - strlen(pairs), " %s",
                 d->keys.pair[i]);
    double before_s = 8 * bytes[0] / d->link_bits, now_s = 8 * bytes[1] / d->link_bits;
    say("link     %s: a phase of a path has %s of steps (on this machine), and its %s "
        "take %s",
        d->link, pl_human_seconds(steps_s, text[0]), pl_human_bytes(bytes[0], text[1]),
        pl_human_seconds(before_s, text[2]));
    if (!pairs[0])
        say("         so no key changes%s", before_s <= steps_s ? "" : " more");
    else
        say("         so%s: %s take %s", pairs, pl_human_bytes(bytes[1], text[3]),
            pl_human_seconds(now_s, text[4]));
    if (now_s > steps_s)
        say("note     the link still takes longer than the steps; phases with %.0f "
            "times the steps (train.tau) would hide it",
            now_s / steps_s);
    return PL_OK;
}
