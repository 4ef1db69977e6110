#include "server/http/tls.hpp"

#include <openssl/err.h>
#include <openssl/x509.h>

#include <boost/asio/ssl/context.hpp>
#include <ctime>
#include <stdexcept>

namespace dovetail::server::http {
namespace {

using boost::asio::ssl::context;
using boost::system::error_code;

constexpr std::chrono::days early_warning{14};

[[noreturn]] void refuse(const char* setting, const std::string& file, const std::string& why) {
  throw std::invalid_argument(std::string{setting} + ": the file " + file +
                              " cannot be used: " + why);
}

void use_certificate(context& tls, const ServerTls& files) {
  error_code error;
  tls.use_certificate_chain_file(files.certificate_file, error);
  if (error) refuse("tls_certificate", files.certificate_file, error.message());
}

void use_key(context& tls, const ServerTls& files) {
  bool is_encrypted = false;
  error_code error;
  // Without it, OpenSSL asks at the terminal.
  tls.set_password_callback([&](std::size_t, context::password_purpose) {
    is_encrypted = true;
    return std::string{};
  });
  tls.use_private_key_file(files.key_file, context::pem, error);
  tls.set_password_callback([](std::size_t, context::password_purpose) { return std::string{}; });
  if (!error) return;
  if (is_encrypted)
    refuse("tls_key", files.key_file, "it is encrypted; give a key without a password");
  const bool is_of_another = ERR_GET_LIB(static_cast<unsigned long>(error.value())) == ERR_LIB_X509;
  refuse("tls_key", files.key_file,
         is_of_another ? "it is not the key of tls_certificate " + files.certificate_file
                       : error.message());
}

std::chrono::system_clock::time_point expiry_of(context& tls) {
  std::tm parts{};
  const auto* certificate = SSL_CTX_get0_certificate(tls.native_handle());
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) != 1) {
    return std::chrono::system_clock::time_point::max();
  }
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}

}  // namespace

void require_certificate(const ServerTls& files) {
  context tls{context::tls_server};
  use_certificate(tls, files);
}

TlsContext tls_context(const ServerTls& files) {
  if (!files.is_on()) return {};
  auto tls = std::make_shared<context>(context::tls_server);
  tls->set_options(context::no_sslv2 | context::no_sslv3 | context::no_tlsv1 | context::no_tlsv1_1);
  SSL_CTX_set_mode(tls->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(tls->native_handle(), SSL_OP_NO_RENEGOTIATION);
  use_certificate(*tls, files);
  use_key(*tls, files);
  return {tls, expiry_of(*tls)};
}

std::string expiry_warning(const ServerTls& files, const TlsContext& tls) {
  const auto left = tls.expires_at - std::chrono::system_clock::now();
  if (!tls.context || left > early_warning) return {};
  const auto days = std::chrono::duration_cast<std::chrono::days>(left).count();
  const auto subject = "tls_certificate: the certificate in " + files.certificate_file;
  if (left.count() <= 0) return subject + " has expired";
  return subject + " expires in " + std::to_string(days) + (days == 1 ? " day" : " days");
}

}  // namespace dovetail::server::http
