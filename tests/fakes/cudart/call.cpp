#include "cudart/call.h"

#include <atomic>

namespace standin {
namespace {

thread_local ThreadState t_state;
std::array<std::atomic<Context>, truth::kDevices> g_primary;

bool reports_errors(truth::Function function) {
    return function == truth::Function::k_cudaGetLastError ||
           function == truth::Function::k_cudaPeekAtLastError;
}

}  // namespace

ThreadState &thread_state() {
    return t_state;
}

Call enter(truth::Function function) {
    return core().enter(function);
}

int leave(const Call &call, int error) {
    if (core().leave(call, error) && call.outermost && error != kSuccess &&
        !reports_errors(call.function)) {
        t_state.last_error = error;
    }
    return error;
}

int primary_context(int device, Context &context) {
    if (device < 0 || static_cast<std::size_t>(device) >= g_primary.size()) {
        return kInvalidDevice;
    }
    auto &known = g_primary[static_cast<std::size_t>(device)];
    context = known.load();
    if (context != nullptr) {
        return kSuccess;
    }
    int error = driver().cuInit(0);
    if (error == kSuccess) {
        error = driver().cuDevicePrimaryCtxRetain(&context, device);
    }
    if (error == kSuccess) {
        known.store(context);
    }
    return error;
}

int choose_device(int device) {
    Context context = nullptr;
    const int error = primary_context(device, context);
    return error == kSuccess ? driver().cuCtxSetCurrent(context) : error;
}

int use_device() {
    const int error = core().context_error();
    return error == kSuccess || error == kContextIsDestroyed ? error
                                                             : choose_device(t_state.device);
}

}  // namespace standin

extern "C" STANDIN_EXPORT void standin_set_hook(standin::Hook hook, void *context) {
    standin::core().set_hook(hook, context);
}

extern "C" STANDIN_EXPORT void standin_reset_depth() {
    standin::core().reset_depth();
}
