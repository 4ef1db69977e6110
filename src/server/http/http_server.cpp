#include "server/http/http_server.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <mutex>
#include <system_error>
#include <thread>

#include "server/http/stream_connection.hpp"
#include "server/http/tls.hpp"

namespace dovetail::server::http {
namespace {

constexpr std::chrono::milliseconds accept_pause{50};
/// Proxies end a connection that is silent for a minute or so.
constexpr std::chrono::seconds heartbeat_interval{15};
constexpr const char* heartbeat_event = ": heartbeat\n\n";

/// At most half of the files that this process may open.
std::size_t connections_within(std::size_t wanted) {
  struct rlimit files {};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY) return wanted;
  return std::min<std::size_t>(wanted, std::max<rlim_t>(files.rlim_cur / 2, 10));
}

ServerLimits limits_of_process(ServerLimits limits) {
  limits.max_connections = connections_within(limits.max_connections);
  return limits;
}

}  // namespace

bool is_ip_address(const std::string& address) {
  error_code error;
  asio::ip::make_address(address, error);
  return !error;
}

bool is_loopback(const std::string& address) {
  error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  return !error && parsed.is_loopback();
}

/// All but start() and stop() runs in the thread of the connections.
class HttpServer::State {
 public:
  State(HttpOptions options, Service& service, Logger log)
      : options_(std::move(options)),
        limits_(limits_of_process(options_.limits)),
        log_(std::move(log)),
        connections_(limits_),
        context_{io_, service, limits_, connections_} {}

  void start() {
    tls_ = usable(options_.tls);
    bind();
    accept();
    beat();
    thread_ = std::thread([this] { io_.run(); });
  }

  bool stop(std::chrono::milliseconds deadline) {
    if (!thread_.joinable()) return true;
    asio::post(io_, [this] {
      context_.stopping = true;
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      heartbeat_.cancel();
      connections_.finish_all();
    });
    const bool all_answered = connections_.wait_until_none(deadline);
    asio::post(io_, [this] {
      connections_.close_all();
      io_.stop();
    });
    thread_.join();
    return all_answered;
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::size_t streams() const { return connections_.streams(); }
  void replace_tls(const ServerTls& files) {
    const auto context = usable(files);
    asio::post(io_, [this, context] { tls_ = context; });
  }
  void broadcast(std::string event) {
    auto shared = std::make_shared<const std::string>(std::move(event));
    asio::post(io_, [this, shared] { connections_.broadcast(shared); });
  }

 private:
  /// The files, ready for use. Warns if the certificate expires soon.
  std::shared_ptr<asio::ssl::context> usable(const ServerTls& files) const {
    const auto tls = tls_context(files);
    if (const auto warning = expiry_warning(files, tls); !warning.empty())
      log_.write(LogLevel::warn, "server.certificate_expires", {{"warning", warning}});
    return tls.context;
  }

  void bind() {
    const tcp::endpoint endpoint{asio::ip::make_address(options_.address), options_.port};
    try {
      acceptor_.open(endpoint.protocol());
      acceptor_.set_option(asio::socket_base::reuse_address(true));
      acceptor_.bind(endpoint);
      acceptor_.listen();
      port_ = acceptor_.local_endpoint().port();
    } catch (const boost::system::system_error& error) {
      throw std::system_error(error.code(), "cannot listen on " + options_.address + " port " +
                                                std::to_string(options_.port));
    }
  }

  void beat() {
    heartbeat_.expires_after(heartbeat_interval);
    heartbeat_.async_wait([this](error_code error) {
      if (error) return;
      connections_.broadcast(std::make_shared<const std::string>(heartbeat_event));
      beat();
    });
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (context_.stopping) return;
      if (error) return pause_accepting(error);
      take(std::move(socket));
      accept();
    });
  }

  /// The process is out of files, or a client went away.
  void pause_accepting(error_code error) {
    if (error != asio::error::connection_aborted) {
      log_.write(LogLevel::warn, "server.accept_failed", {{"error", error.message()}});
      connections_.close_longest_waiting();
    }
    pause_.expires_after(accept_pause);
    pause_.async_wait([this](error_code cancelled) {
      if (!cancelled && !context_.stopping) accept();
    });
  }

  void take(tcp::socket socket) {
    error_code error;
    const auto peer = socket.remote_endpoint(error);
    if (error) return;
    auto address = peer.address().to_string();
    if (!connections_.make_room(address)) return;
    socket.set_option(tcp::no_delay(true), error);
    const auto connection = make_connection(std::move(socket), std::move(address));
    connections_.add(connection);
    connection->start();
  }

  std::shared_ptr<Connection> make_connection(tcp::socket socket, std::string address) {
    using TlsStream = asio::ssl::stream<tcp::socket>;
    if (!tls_) {
      return std::make_shared<StreamConnection<tcp::socket>>(context_, std::move(socket),
                                                             std::move(address));
    }
    return std::make_shared<StreamConnection<TlsStream>>(
        context_, TlsStream{std::move(socket), *tls_}, std::move(address));
  }

  const HttpOptions options_;
  const ServerLimits limits_;
  Logger log_;
  Connections connections_;
  std::shared_ptr<asio::ssl::context> tls_;  ///< Open connections keep what they need of it.
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Context context_;
  tcp::acceptor acceptor_{io_};
  asio::steady_timer pause_{io_};
  asio::steady_timer heartbeat_{io_};
  std::thread thread_;
  std::uint16_t port_ = 0;
};

HttpServer::HttpServer(HttpOptions options, Service& service, Logger log)
    : state_(std::make_unique<State>(std::move(options), service, std::move(log))) {}

HttpServer::~HttpServer() {
  state_->stop(std::chrono::milliseconds{0});
}

void HttpServer::start() {
  state_->start();
}

bool HttpServer::stop(std::chrono::milliseconds deadline) {
  return state_->stop(deadline);
}

std::uint16_t HttpServer::port() const {
  return state_->port();
}

void HttpServer::replace_tls(const ServerTls& tls) {
  state_->replace_tls(tls);
}

void HttpServer::broadcast(std::string event) {
  state_->broadcast(std::move(event));
}

std::size_t HttpServer::streams() const {
  return state_->streams();
}

}  // namespace dovetail::server::http
