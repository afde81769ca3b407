/* A whole step as one CUDA graph.
 *
 * The first call of a routine executes its work directly; during this call cuBLASLt
 * chooses algorithms, scratch memory grows, and the driver allows kernels their shared
 * memory. The second call is captured as a graph, which is then launched. Later calls
 * launch the graph again, with one call of the driver instead of hundreds. If memory
 * that the graph uses was replaced, or if the shape differs, the graph is dropped and
 * the routine starts again with a first call.
 *
 * If the driver refuses to capture, the routine continues without a graph, and the
 * backend's remark says why. */
#include "modules/cuda/ops_cuda.cuh"
#include <stdio.h>

struct pl_routine {
    uint64_t shape, generation;
    int n_calls;
    bool refused;
    cudaGraphExec_t exec;
};

static void forget_graph(pl_routine *r)
{
    if (r->exec)
        (void)cudaGraphExecDestroy(r->exec);
    r->exec = NULL;
    r->n_calls = 0;
}

/* Captures everything that `work` sends to the stream as a graph, without executing
 * it. */
static pl_status capture(cuda_state *self, void (*work)(void *), void *context,
                         cudaGraphExec_t *out)
{
    cudaGraph_t graph = NULL;
    PL_CHECK(device_check(
        cudaStreamBeginCapture(self->stream, cudaStreamCaptureModeThreadLocal),
        "starting the capture of a CUDA graph"));
    work(context);
    pl_status status = device_check(cudaStreamEndCapture(self->stream, &graph),
                                    "ending the capture of a CUDA graph");
    if (status == PL_OK)
        status =
            device_check(cudaGraphInstantiate(out, graph, 0), "making a CUDA graph");
    if (graph)
        (void)cudaGraphDestroy(graph);
    return status;
}

/* A failure during the capture only means that there is no graph; the work is then done
 * without it. */
static void make_graph(pl_backend *be, pl_routine *r, void (*work)(void *),
                       void *context)
{
    cuda_state *self = cuda_self(be);
    const pl_status before = self->failure;
    pl_status status = capture(self, work, context, &r->exec);
    if (before == PL_OK && self->failure != PL_OK) {
        status = pl_fail(self->failure, "%s", self->failure_text);
        self->failure = PL_OK;
    }
    if (status == PL_OK)
        return;
    forget_graph(r);
    r->refused = true;
    snprintf(be->remark, sizeof be->remark, "steps run without a CUDA graph: %.400s",
             pl_last_error());
}

void cuda_perform(pl_backend *be, pl_routine **routine, uint64_t shape,
                  void (*work)(void *context), void *context)
{
    cuda_state *self = cuda_self(be);
    if (!*routine)
        *routine = static_cast<pl_routine *>(pl_alloc(sizeof **routine));
    pl_routine *r = *routine;
    if (r->shape != shape || r->generation != self->generation) {
        forget_graph(r);
        r->refused = false; /* the reason may have gone with the shape or the memory */
    }
    if (r->n_calls == 1 && !r->refused)
        make_graph(be, r, work, context);
    if (r->exec)
        cuda_note_failure(self, device_check(cudaGraphLaunch(r->exec, self->stream),
                                             "running a CUDA graph"));
    else
        work(context);
    r->n_calls++;
    r->shape = shape;
    r->generation = self->generation;
}

void cuda_routine_destroy(pl_backend *be, pl_routine **routine)
{
    if (!*routine)
        return;
    (void)cudaStreamSynchronize(cuda_stream(be));
    forget_graph(*routine);
    pl_free(*routine);
    *routine = NULL;
}
