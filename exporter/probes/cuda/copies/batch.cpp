#include "exporter/probes/cuda/copies/batch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gpusnoop::probes {

namespace {

// cudaMemcpy3DBatchOp in CUDA's driver_types.h, in words of 8 bytes.
enum WordOfBatch3d : std::size_t {
    word_source_type = 0,
    word_source = 1,
    word_destination_type = 5,
    word_destination = 6,
    word_extent = 10,
};

constexpr std::uint32_t operand_is_array = 2;  // cudaMemcpyOperandTypeArray

std::uint32_t kind_of_ends(bool to_array, bool from_array) {
    if (to_array && from_array) {
        return COPY_D2D;
    }
    if (to_array) {
        return COPY_TO_ARRAY;
    }
    return from_array ? COPY_FROM_ARRAY : COPY_DEFAULT;
}

void fill_3d(cuda_copy_record &copy, std::span<const __u64, CUDA_BATCH_3D_WORDS> words) {
    // The upper half of the word is padding.
    const auto is_array = [&](WordOfBatch3d type) {
        return static_cast<std::uint32_t>(words[type]) == operand_is_array;
    };
    copy.destination = words[word_destination];
    copy.source = words[word_source];
    copy.kind = kind_of_ends(is_array(word_destination_type), is_array(word_source_type));
    // For an array the width counts elements, whose size only the array knows.
    copy.bytes = copy.kind == COPY_DEFAULT
                     ? words[word_extent] * words[word_extent + 1] * words[word_extent + 2]
                     : 0;
}

}  // namespace

std::vector<cuda_copy_record> copies_of(const cuda_batch_record &batch) {
    const std::span<const __u64, CUDA_BATCH_WORDS> words(batch.words);
    const std::size_t most = batch.is_3d != 0 ? CUDA_BATCH_3D_COPIES : CUDA_BATCH_COPIES;
    std::vector<cuda_copy_record> copies(std::min<std::size_t>(batch.copies, most));
    for (std::size_t i = 0; i < copies.size(); i++) {
        cuda_copy_record &copy = copies[i];
        copy.head = batch.head;
        copy.head.duration_ns = i == 0 ? batch.head.duration_ns : 0;
        copy.stream = batch.stream;
        copy.is_async = 1;
        if (batch.is_3d != 0) {
            fill_3d(copy, words.subspan(i * CUDA_BATCH_3D_WORDS).first<CUDA_BATCH_3D_WORDS>());
            continue;
        }
        copy.destination = words[i];
        copy.source = words[CUDA_BATCH_COPIES + i];
        copy.bytes = words[2 * CUDA_BATCH_COPIES + i];
        copy.kind = COPY_DEFAULT;
    }
    return copies;
}

}  // namespace gpusnoop::probes
