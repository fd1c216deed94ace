// Certificates, keys and authorities for OpenSSL, read by the exporter's own reader: OpenSSL's
// reader waits forever for a FIFO.
#pragma once

#include <string>

#include "exporter/base/read_text.h"
#include "exporter/base/result.h"
#include "exporter/config/web_config.h"

struct ssl_ctx_st;

namespace gpusnoop::http {

// Why OpenSSL's last call failed; clears OpenSSL's errors. The first error is in front.
[[nodiscard]] std::string openssl_reason();

// Reads the files of the settings into the context. Errors name the file.
[[nodiscard]] Result<> use_certificates(ssl_ctx_st *context, const config::WebTls &config,
                                        ReadingDeadline until);

}  // namespace gpusnoop::http
