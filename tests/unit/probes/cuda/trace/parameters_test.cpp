// How many parameters a kernel has, from its mangled name.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "exporter/probes/cuda/launches/cuda_kernel_name.h"

using gpusnoop::symbols::kernel_parameters;

TEST_CASE("a mangled name tells how many parameters the kernel has") {
    CHECK(kernel_parameters("_Z5emptyv") == 0);
    CHECK(kernel_parameters("_Z3addPfPKfi") == 3);
    CHECK(kernel_parameters("_ZL3addPf") == 1);
    CHECK(kernel_parameters("_Z12sixteenWordsmmmmmmmmmmmmmmmm") == 16);
    CHECK(kernel_parameters("_ZN4demo6linear15matrix_multiplyEPKfS2_Pfii") == 5);
    CHECK(kernel_parameters("_ZN12_GLOBAL__N_13addEPf") == 1);
    CHECK(kernel_parameters("_Z3addPfPKfi.cold") == 3);
    CHECK(kernel_parameters("_Z3sumRKSt6vectorIfSaIfEES1_") == 2);
    CHECK(kernel_parameters("_Z3runPFviEf") == 2);
}

TEST_CASE("a template's name has its result in front of its parameters") {
    CHECK(kernel_parameters("_Z5scaleIfEvPT_i") == 2);
    CHECK(kernel_parameters("_ZN4demo6reduceIfEEvPKT_PS1_i") == 3);
    CHECK(kernel_parameters("_Z3addILi3EEvPfSt6vectorIfSaIfEE") == 2);
    CHECK(kernel_parameters("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_"
                            "addIfEESt5arrayIPcLm3EEEEviT0_T1_") == 3);
    CHECK(kernel_parameters("_Z5emptyIfEvv") == 0);
    CHECK(kernel_parameters("_Z7largestIfET_S0_S0_") == 2);
}

TEST_CASE("of a host stub's name the kernel's part counts") {
    CHECK(kernel_parameters("_Z26__device_stub__Z3addPfPKfiPfPKfi") == 3);
}

TEST_CASE("a name that does not tell gives no number") {
    CHECK_FALSE(kernel_parameters("add"));
    CHECK_FALSE(kernel_parameters(""));
    CHECK_FALSE(kernel_parameters("_Z"));
    CHECK_FALSE(kernel_parameters("_Z1fIJifEEvDpT_"));  // a pack: any number
    CHECK_FALSE(kernel_parameters("_Z3addPfPQ"));       // a type that is not known
    CHECK_FALSE(kernel_parameters("_Z999add"));
    CHECK_FALSE(kernel_parameters("_Z1f" + std::string(100'000, 'P')));
}
