// One connection: reads requests, hands them to the service, and writes the answers.
//
// All of its functions run in the thread of the connections. `Stream` is a socket or TLS on a
// socket.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "server/http/connections.hpp"
#include "server/http/service.hpp"

namespace dovetail::server::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::error_code;
using tcp = asio::ip::tcp;

/// What all connections share.
struct Context {
  asio::io_context& io;
  Service& service;
  const ServerLimits& limits;
  Connections& connections;
  bool stopping = false;
};

template <class Stream>
class StreamConnection final : public Connection,
                               public std::enable_shared_from_this<StreamConnection<Stream>> {
 public:
  StreamConnection(Context& context, Stream stream, std::string address);

  void start() override;
  void close() override;
  void finish() override;
  void send_event(const std::shared_ptr<const std::string>& event) override;

 private:
  using Parser = beast::http::request_parser<beast::http::string_body>;
  enum class Phase { waiting, body, running, writing, streaming, lingering };

  // --- reading a request
  void shake_hands();
  void wait_for_request();
  void read_header();
  void on_header(error_code error);
  void refuse_header(error_code error);
  void admit();
  void continue_body();
  void read_body();
  void on_body(error_code error);

  // --- answering it
  void run(Request&& request);
  void refuse(int status, const std::string& detail);
  void reply(const Response& response);
  void on_written(error_code error);
  void end_output();
  void linger();

  // --- an answer that does not end
  void begin_stream(const Response& response);
  void watch_for_end();
  void write_events();
  void on_event_written(error_code error);

  // --- time limits
  void limit_time(std::chrono::milliseconds limit);
  void no_time_limit();
  void on_time_limit();

  void enter(Phase phase);
  /// Wraps what follows an operation. Nothing follows it after close().
  template <class Then>
  auto after(Then then);

  Context& context_;
  Stream stream_;
  asio::steady_timer timer_;
  std::uint64_t timer_number_ = 0;
  bool timed_out_ = false;  ///< The operation under way was ended by its time limit.

  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::optional<Request> request_;  ///< Admitted; its body is being read.
  std::string out_;
  Phase phase_ = Phase::waiting;
  std::uint64_t request_number_ = 0;
  bool is_head_ = false;
  bool keep_alive_ = true;
  std::size_t discarded_ = 0;
  std::deque<std::shared_ptr<const std::string>> events_;  ///< The first one is being written.
  std::size_t waiting_bytes_ = 0;                          ///< Of events_.
  bool closed_ = false;
};

}  // namespace dovetail::server::http
