// Threads that launch kernels, as the steps of spends.cpp say.

#pragma once

#include <functional>

namespace spends {

void crowd(int threads, int ms, const std::function<void()> &launch);
void turns(int times, int ms, const std::function<void()> &launch);

}  // namespace spends
