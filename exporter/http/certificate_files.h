// Certificates, keys and authorities for OpenSSL, read by our own reader: OpenSSL's waits for a
// FIFO without end.
#pragma once

#include <string>

#include "exporter/base/read_text.h"
#include "exporter/base/result.h"
#include "exporter/config/web_config.h"

struct ssl_ctx_st;

namespace gpusnoop::http {

// Why OpenSSL's last call failed, and forgets it. The first of its errors is behind the others.
[[nodiscard]] std::string openssl_reason();

// Reads the files of the settings, and has the context use them. Errors name the file.
[[nodiscard]] Result<> use_certificates(ssl_ctx_st *context, const config::WebTls &config,
                                        ReadingDeadline until);

}  // namespace gpusnoop::http
