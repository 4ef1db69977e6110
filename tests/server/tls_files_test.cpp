// The files of TLS: errors and warnings before a client meets them.
#include "server/http/tls.hpp"
#include "support/certificate.hpp"
#include "support/recorded_lines.hpp"
#include "support/server_test.hpp"

namespace dovetail::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class TlsFiles : public SqliteServerTest {
 protected:
  std::string refusal_of(const ServerTls& tls) {
    auto options = test_server_options();
    options.tls = tls;
    try {
      serve(options);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  }

  const TemporaryDirectory directory;
};

TEST_F(TlsFiles, AnEncryptedKeyIsRefused) {
  const auto tls = make_certificate(directory.path(), "locked", {.passphrase = "s3cret"});
  EXPECT_THAT(refusal_of(tls),
              AllOf(HasSubstr("tls_key"), HasSubstr(tls.key_file), HasSubstr("it is encrypted")));
}

TEST_F(TlsFiles, TheKeyOfAnotherCertificateIsRefused) {
  const auto one = make_certificate(directory.path(), "one");
  const auto other = make_certificate(directory.path(), "other");
  EXPECT_THAT(refusal_of({one.certificate_file, other.key_file}),
              AllOf(HasSubstr("tls_key"), HasSubstr("is not the key of tls_certificate")));
}

TEST_F(TlsFiles, ACertificateThatExpiresSoonIsWarnedOf) {
  const auto log = std::make_shared<RecordedLines>();
  auto options = test_server_options();
  options.log_sink = log;
  options.tls = make_certificate(directory.path(), "long", {.days = 100});
  serve(options);
  EXPECT_EQ(log->count("server.certificate_expires"), 0);
  options.tls = make_certificate(directory.path(), "short", {.days = 5});
  server->reload(options);
  EXPECT_THAT(log->all(), Contains(AllOf(HasSubstr("warn server.certificate_expires"),
                                         HasSubstr(options.tls.certificate_file),
                                         HasSubstr("expires in 4 days"))));
}

TEST_F(TlsFiles, ACertificateThatHasExpiredIsWarnedOf) {
  const auto files = make_certificate(directory.path(), "old");
  auto tls = server::http::tls_context(files);
  tls.expires_at = std::chrono::system_clock::now() - std::chrono::hours{1};
  EXPECT_THAT(server::http::expiry_warning(files, tls), HasSubstr("has expired"));
}

TEST_F(TlsFiles, TurningTlsOnOrOffNeedsARestart) {
  auto options = test_server_options();
  serve(options);
  options.tls = make_certificate(directory.path(), "new");
  try {
    server->reload(options);
    FAIL() << "reloaded";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("tls_certificate"), HasSubstr("needs a restart")));
  }
}

}  // namespace
}  // namespace dovetail::testing
