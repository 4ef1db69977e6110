#include "transport/support/http_endpoint.hpp"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace dovetail::testing {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using BeastRequest = http::request<http::string_body>;

EndpointRequest converted(BeastRequest&& given) {
  EndpointRequest request{.method = std::string{given.method_string()},
                          .target = std::string{given.target()},
                          .body = std::move(given.body())};
  for (const auto& field : given) {
    std::string name{field.name_string()};
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers.emplace(name, std::string{field.value()});
  }
  return request;
}

}  // namespace

class HttpEndpoint::State {
 public:
  State(Handler handler, const Options& options)
      : handler_(std::move(handler)),
        acceptor_(context_, {asio::ip::make_address("127.0.0.1"), options.port}) {
    if (options.tls.is_on()) {
      tls_.emplace(asio::ssl::context::tls_server);
      tls_->use_certificate_chain_file(options.tls.certificate_file);
      tls_->use_private_key_file(options.tls.key_file, asio::ssl::context::pem);
    }
    acceptor_thread_ = std::jthread([this](const std::stop_token& stop) { accept(stop); });
  }

  ~State() {
    acceptor_thread_.request_stop();
    // A blocking accept ends with the shutdown of its socket.
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    acceptor_thread_.join();
    {
      const std::lock_guard lock(mutex_);
      for (auto* const socket : open_) ::shutdown(socket->native_handle(), SHUT_RDWR);
    }
    threads_.clear();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] bool has_tls() const { return tls_.has_value(); }

  [[nodiscard]] std::vector<EndpointRequest> received() const {
    const std::lock_guard lock(mutex_);
    return received_;
  }
  [[nodiscard]] int connections() const {
    const std::lock_guard lock(mutex_);
    return connections_;
  }

 private:
  void accept(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      error_code error;
      auto socket = std::make_shared<tcp::socket>(context_);
      acceptor_.accept(*socket, error);
      if (error) continue;
      const std::lock_guard lock(mutex_);
      ++connections_;
      open_.insert(socket.get());
      threads_.emplace_back([this, socket] { serve(*socket); });
    }
  }

  void serve(tcp::socket& socket) {
    if (tls_) {
      asio::ssl::stream<tcp::socket&> stream(socket, *tls_);
      error_code error;
      stream.handshake(asio::ssl::stream_base::server, error);
      if (!error) answer_all(stream);
    } else {
      answer_all(socket);
    }
    const std::lock_guard lock(mutex_);
    open_.erase(&socket);
    error_code ignored;
    socket.close(ignored);
  }

  template <class Stream>
  void answer_all(Stream& stream) {
    beast::flat_buffer buffer;
    while (true) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(std::uint64_t{64} << 20);
      error_code error;
      http::read(stream, buffer, parser, error);
      if (error || !answer(stream, converted(parser.release()))) return;
    }
  }

  /// Returns whether the connection goes on.
  template <class Stream>
  bool answer(Stream& stream, const EndpointRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      received_.push_back(request);
    }
    const auto given = handler_(request);
    error_code error;
    if (given.raw) {
      asio::write(stream, asio::buffer(*given.raw), error);
      return false;
    }
    http::response<http::string_body> response{static_cast<http::status>(given.status), 11};
    for (const auto& [name, value] : given.headers) response.set(name, value);
    response.body() = given.body;
    response.prepare_payload();
    http::write(stream, response, error);
    return !error;
  }

  Handler handler_;
  asio::io_context context_;
  tcp::acceptor acceptor_;
  std::optional<asio::ssl::context> tls_;
  mutable std::mutex mutex_;
  std::vector<EndpointRequest> received_;
  int connections_ = 0;
  std::set<tcp::socket*> open_;
  std::vector<std::jthread> threads_;
  std::jthread acceptor_thread_;
};

HttpEndpoint::HttpEndpoint(Handler handler, Options options)
    : state_(std::make_unique<State>(std::move(handler), options)) {}

HttpEndpoint::~HttpEndpoint() = default;

std::uint16_t HttpEndpoint::port() const {
  return state_->port();
}

std::string HttpEndpoint::url(const std::string& host, const std::string& path) const {
  return (state_->has_tls() ? "https://" : "http://") + host + ":" + std::to_string(port()) + path;
}

std::vector<EndpointRequest> HttpEndpoint::received() const {
  return state_->received();
}

int HttpEndpoint::connections() const {
  return state_->connections();
}

}  // namespace dovetail::testing
