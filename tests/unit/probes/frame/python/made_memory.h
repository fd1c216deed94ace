// The memory of a process with an interpreter, made by a test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "exporter/probes/frame/python/interpreter.h"
#include "exporter/symbols/stacks/mapped_files.h"
#include "exporter/symbols/stacks/patient_reader.h"

namespace gpusnoop::probes {

inline constexpr std::uint32_t made_process = 42;

class MadeMemory : public symbols::MappedFiles {
public:
    static constexpr std::uint64_t page_bytes = 4096;

    template <typename Value>
    void put(std::uint64_t address, const Value &value) {
        put_bytes(address, {reinterpret_cast<const char *>(&value), sizeof(value)});
    }
    void put_bytes(std::uint64_t address, std::string_view bytes) {
        for (const char byte : bytes) {
            std::string &page = pages[address / page_bytes];
            page.resize(page_bytes);
            page[address++ % page_bytes] = byte;
        }
    }
    Result<std::vector<ebpf::Mapping>> list(std::uint32_t /*tgid*/) override {
        return fail("it has none");
    }
    Result<processes::MappedFile> open_file(const ebpf::Mapping & /*mapping*/) override {
        return fail("it has none");
    }
    Result<std::string> read_memory(std::uint32_t tgid, std::uint64_t address,
                                    std::size_t size) override {
        reads++;
        std::string bytes;
        while (tgid == made_process && bytes.size() < size) {
            const auto page = pages.find(address / page_bytes);
            if (page == pages.end()) {
                break;
            }
            const std::string part = page->second.substr(address % page_bytes, size - bytes.size());
            bytes += part;
            address += part.size();
        }
        bytes_read += bytes.size();
        return bytes.empty() ? Result<std::string>(fail("not mapped", EFAULT)) : bytes;
    }
    [[nodiscard]] symbols::ReadMemory reader() {
        return
            [this](auto tgid, auto address, auto size) { return read_memory(tgid, address, size); };
    }

    std::map<std::uint64_t, std::string> pages;
    std::size_t reads = 0;
    std::size_t bytes_read = 0;
};

}  // namespace gpusnoop::probes
