// A CUDA program as older versions of nvcc build it: each kernel is launched through the address of
// its host stub. Compiled with -D__NV_LEGACY_LAUNCH.

#include "nvcc/run.cuh"

namespace legacy {

__global__ void saxpy(int count, float factor, const float *x, float *y) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) {
        y[at] += factor * x[at];
    }
}

template <typename Value>
__global__ void reverse(const Value *in, Value *out, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) {
        out[count - 1 - at] = in[at];
    }
}

}  // namespace legacy

int main(int argc, char **argv) {
    return demo::run_demo(argc, argv, [](const demo::Buffers &device) {
        constexpr int kCount = demo::kCount;
        legacy::saxpy<<<kCount / 256, 256>>>(kCount, 2.0F, device.a, device.sum);
        legacy::reverse<<<kCount / 1024, 1024>>>(device.a, device.sum, kCount);
        legacy::reverse<<<dim3(8, 2), dim3(32, 4, 2)>>>(device.b, device.sum, 4096);
    });
}
