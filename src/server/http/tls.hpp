// The files of TLS: the certificate and its key.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "dovetail/server.hpp"

namespace boost::asio::ssl {
class context;
}

namespace dovetail::server::http {

struct TlsContext {
  std::shared_ptr<boost::asio::ssl::context> context;  ///< Null without TLS.
  /// When the certificate expires.
  std::chrono::system_clock::time_point expires_at{};
};

/// Throws std::invalid_argument that names `tls_certificate`, when its file cannot be used.
void require_certificate(const ServerTls& files);

/// Reads both files: TLS 1.2 and later. Throws std::invalid_argument that names `tls_certificate`
/// or `tls_key`, when a file cannot be used, the key is encrypted, or it is that of another
/// certificate.
[[nodiscard]] TlsContext tls_context(const ServerTls& files);

/// Says that the certificate has expired, or expires within 14 days. Otherwise empty.
[[nodiscard]] std::string expiry_warning(const ServerTls& files, const TlsContext& tls);

}  // namespace dovetail::server::http
