// The array of objects in a document, as long as they fit.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "exporter/probes/frame/frame_json.h"

namespace gpusnoop::probes {

// The limit of such a document, with what follows the array.
inline constexpr std::size_t max_document_bytes = std::size_t{8} << 20;

class JsonObjects {
public:
    explicit JsonObjects(std::string &text) : text_(text) {}

    // False: it does not fit.
    bool add(const nlohmann::ordered_json &json) {
        constexpr std::size_t closing_bytes = 256;
        const std::string one = to_text(json);
        if (text_.size() + one.size() + closing_bytes > max_document_bytes) {
            return false;
        }
        text_ += std::exchange(separator_, ",") + one;
        return true;
    }

private:
    std::string &text_;
    const char *separator_ = "";
};

}  // namespace gpusnoop::probes
