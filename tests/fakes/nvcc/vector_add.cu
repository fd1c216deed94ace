// A CUDA program as today's nvcc builds it: each kernel is launched through its handle.

#include "nvcc/run.cuh"

__device__ int rounds_done;
__constant__ float factors[4];

__global__ void vectorAdd(const float *a, const float *b, float *sum, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) {
        sum[at] = a[at] + b[at] * factors[at % 4];
    }
    if (at == 0) {
        ++rounds_done;
    }
}

namespace demo {

template <typename Value, int factor>
__global__ void scale(Value *values, int count) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) {
        values[at] *= factor;
    }
}

namespace {

__global__ void fill(float *values, float value) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    values[row * gridDim.x * blockDim.x + column] = value;
}

}  // namespace

__global__ void nothing() {}

}  // namespace demo

int main(int argc, char **argv) {
    return demo::run_demo(argc, argv, [](const demo::Buffers &device) {
        constexpr int kCount = demo::kCount;
        demo::fill<<<dim3(16, 16), dim3(16, 16)>>>(device.b, 2.0F);
        vectorAdd<<<kCount / 256, 256>>>(device.a, device.b, device.sum, kCount);
        vectorAdd<<<kCount / 512, 512>>>(device.a, device.b, device.sum, kCount);
        demo::scale<float, 3><<<kCount / 128, 128>>>(device.sum, kCount);
        demo::scale<int, 2><<<1, 64>>>(reinterpret_cast<int *>(device.sum), 64);
        demo::nothing<<<dim3(2, 3, 4), dim3(4, 4, 8)>>>();
    });
}
