// The functions that find kernels and launch them; kernels do nothing.

#include "driver/capture.h"
#include "driver/contexts.h"
#include "driver/cuda.h"
#include "driver/objects.h"
#include "driver/shapes.h"
#include "driver/truth_writer.h"

namespace standin {
namespace {

using truth::Function;

constexpr std::uint64_t kMaxThreadsPerBlock = 1024;

std::uint64_t volume(Dim3 shape) {
    return std::uint64_t{shape.x} * shape.y * shape.z;
}

// Each factor is bounded first: the product of three 32-bit numbers does not fit 64 bits.
bool is_block(Dim3 block) {
    return block.x <= kMaxThreadsPerBlock && block.y <= kMaxThreadsPerBlock &&
           block.z <= kMaxThreadsPerBlock && volume(block) != 0 &&
           volume(block) <= kMaxThreadsPerBlock;
}

Work launch_work(const std::string &kernel, Dim3 grid, Dim3 block) {
    Work work;
    work.type = kKernelNode;
    work.kernel = kernel;
    work.grid = grid;
    work.block = block;
    return work;
}

int launch_call(Function self, DriverFunction function, Dim3 grid, Dim3 block, Stream stream) {
    return call(self, [&](const Call &open) -> int {
        const Current current = current_context();
        if (current.error != kSuccess) {
            return current.error;
        }
        const auto name = function_name(function);
        if (!name || !is_stream(stream)) {
            return kInvalidResourceHandle;
        }
        if (!is_launch_shape(grid, block)) {
            return kInvalidValue;
        }
        run_hook(open);
        if (const auto result =
                captured(open, stream, [&] { return launch_work(*name, grid, block); })) {
            return *result;
        }
        if (counts(open)) {
            count_launch(current.device, truth::LaunchedBy::stream, name->c_str(), grid, block);
        }
        return kSuccess;
    });
}

int launch_call(Function self, const DriverLaunchConfig *config, DriverFunction function) {
    if (config == nullptr) {
        return call(self, [](const Call &) { return kInvalidValue; });
    }
    return launch_call(self, function, config->grid, config->block, config->stream);
}

int load(void **module, const void *image, bool needs_context) {
    if (!driver_is_initialized()) {
        return kNotInitialized;
    }
    if (const Current current = current_context(); needs_context && current.error != kSuccess) {
        return current.error;
    }
    if (module == nullptr || image == nullptr) {
        return kInvalidValue;
    }
    load_module(module);
    return kSuccess;
}

template <typename Find, typename... Names>
int find_call(Function self, Find find, void **out, Names... names) {
    return call(self, [&](const Call &) -> int {
        return out == nullptr || ((names == nullptr) || ...) ? kInvalidValue : find(out, names...);
    });
}

}  // namespace

bool is_launch_shape(Dim3 grid, Dim3 block) {
    return grid.x != 0 && grid.y != 0 && grid.z != 0 && is_block(block);
}

}  // namespace standin

using namespace standin;

extern "C" {

STANDIN_DEFINE_BOTH(cuLaunchKernel, _ptsz,
                    (DriverFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z,
                     unsigned /*shared_bytes*/, Stream stream, void ** /*arguments*/,
                     void ** /*extra*/),
                    launch_call(self, function, {grid_x, grid_y, grid_z},
                                {block_x, block_y, block_z}, stream))
STANDIN_DEFINE_BOTH(cuLaunchCooperativeKernel, _ptsz,
                    (DriverFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z,
                     unsigned /*shared_bytes*/, Stream stream, void ** /*arguments*/),
                    launch_call(self, function, {grid_x, grid_y, grid_z},
                                {block_x, block_y, block_z}, stream))
STANDIN_DEFINE_BOTH(cuLaunchKernelEx, _ptsz,
                    (const DriverLaunchConfig *config, DriverFunction function,
                     void ** /*arguments*/, void ** /*extra*/),
                    launch_call(self, config, function))
STANDIN_DEFINE(cuModuleLoadData, (Module * module, const void *image),
               call(self, [&](const Call &) { return load(module, image, true); }))
STANDIN_DEFINE(cuModuleLoadDataEx,
               (Module * module, const void *image, unsigned /*count*/, int * /*options*/,
                void ** /*values*/),
               call(self, [&](const Call &) { return load(module, image, true); }))
STANDIN_DEFINE(cuModuleLoadFatBinary, (Module * module, const void *image),
               call(self, [&](const Call &) { return load(module, image, true); }))
STANDIN_DEFINE(cuModuleUnload, (Module module),
               call(self, [&](const Call &) { return unload_module(module); }))
STANDIN_DEFINE(cuModuleGetFunction, (DriverFunction * function, Module module, const char *name),
               find_call(self, find_function, function, module, name))
STANDIN_DEFINE(cuLibraryLoadData,
               (Library * library, const void *code, int * /*jit_options*/, void ** /*jit_values*/,
                unsigned /*jit_count*/, int * /*options*/, void ** /*values*/, unsigned /*count*/),
               call(self, [&](const Call &) { return load(library, code, false); }))
STANDIN_DEFINE(cuLibraryUnload, (Library library),
               call(self, [&](const Call &) { return unload_module(library); }))
STANDIN_DEFINE(cuLibraryGetKernel, (Kernel * kernel, Library library, const char *name),
               find_call(self, find_kernel, kernel, library, name))
STANDIN_DEFINE(cuKernelGetFunction, (DriverFunction * function, Kernel kernel),
               find_call(self, find_function_of_kernel, function, kernel))

}  // extern "C"
