#include "server/http/stream_connection.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/read.hpp>

#include "server/http/head.hpp"
#include "server/http/wire.hpp"

namespace dovetail::server::http {
namespace {

using std::chrono::milliseconds;
using HttpError = beast::http::error;
using beast::http::field;
using beast::http::verb;

constexpr std::size_t read_size = 4 << 10;
/// How much of the input of a refused client is discarded, and for how long, so that it can read
/// the answer before the connection is reset.
constexpr std::size_t most_discarded = 256 << 10;
constexpr milliseconds linger_limit{2'000};
/// Of a stream: what its reader may be behind.
constexpr std::size_t most_waiting_events = 64;
constexpr std::size_t most_waiting_bytes = 256 << 10;
constexpr int stream_send_buffer = 64 << 10;

/// An error of the message, and not of the connection.
bool is_http_error(error_code error) {
  return error && error.category() == make_error_code(HttpError::bad_method).category();
}

}  // namespace

template <class Stream>
StreamConnection<Stream>::StreamConnection(Context& context, Stream stream, std::string address)
    : Connection(std::move(address)),
      context_(context),
      stream_(std::move(stream)),
      timer_(context.io),
      buffer_(context.limits.max_header_bytes + read_size) {}

template <class Stream>
template <class Then>
auto StreamConnection<Stream>::after(Then then) {
  return [self = this->shared_from_this(), then](error_code error, std::size_t size = 0) {
    if (!self->closed_) then(error, size);
  };
}

template <class Stream>
void StreamConnection<Stream>::start() {
  enter(Phase::waiting);
  if constexpr (std::is_same_v<Stream, tcp::socket>) {
    read_header();
  } else {
    shake_hands();
  }
}

template <class Stream>
void StreamConnection<Stream>::close() {
  if (closed_) return;
  closed_ = true;
  const auto self = this->shared_from_this();
  if (phase_ == Phase::body) context_.connections.end_body();
  timer_.cancel();
  error_code ignored;
  beast::get_lowest_layer(stream_).close(ignored);
  context_.connections.remove(*this);
}

template <class Stream>
void StreamConnection<Stream>::finish() {
  keep_alive_ = false;
  if (phase_ == Phase::waiting) return close();
  if (phase_ != Phase::streaming) return;
  if (events_.size() > 1) events_.resize(1);  // the one that is being written
  if (events_.empty()) close();
}

template <class Stream>
void StreamConnection<Stream>::enter(Phase phase) {
  if (phase_ == Phase::body && phase != Phase::body) context_.connections.end_body();
  phase_ = phase;
  if (phase == Phase::waiting) {
    context_.connections.note_waiting(*this);
  } else {
    context_.connections.note_busy(*this);
  }
}

// --- reading a request

template <class Stream>
void StreamConnection<Stream>::shake_hands() {
  if constexpr (!std::is_same_v<Stream, tcp::socket>) {
    limit_time(context_.limits.header_timeout);
    stream_.async_handshake(asio::ssl::stream_base::server, after([this](error_code error, auto) {
                              error ? close() : read_header();
                            }));
  }
}

template <class Stream>
void StreamConnection<Stream>::wait_for_request() {
  enter(Phase::waiting);
  if (buffer_.size() > 0) return read_header();  // pipelined
  limit_time(context_.limits.idle_timeout);
  stream_.async_read_some(buffer_.prepare(read_size), after([this](error_code error, auto size) {
                            if (error) return close();
                            buffer_.commit(size);
                            read_header();
                          }));
}

template <class Stream>
void StreamConnection<Stream>::read_header() {
  limit_time(context_.limits.header_timeout);
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(context_.limits.max_header_bytes));
  parser_->body_limit(context_.limits.max_body_bytes);
  beast::http::async_read_header(stream_, buffer_, *parser_,
                                 after([this](error_code error, auto) { on_header(error); }));
}

template <class Stream>
void StreamConnection<Stream>::on_header(error_code error) {
  no_time_limit();
  ++request_number_;
  if (error) return refuse_header(error);
  const auto& message = parser_->get();
  is_head_ = message.method() == verb::head;
  keep_alive_ = message.keep_alive() && !context_.stopping;
  const auto hosts = message.count(field::host);
  if (hosts > 1 || (hosts == 0 && message.version() >= 11))
    return refuse(400, "a request has one Host header");
  if (const auto bad = bad_transfer_of(message); bad.status != 0)
    return refuse(bad.status, bad.detail);
  admit();
}

template <class Stream>
void StreamConnection<Stream>::refuse_header(error_code error) {
  const bool has_sent = buffer_.size() > 0 || parser_->got_some();
  if (error == asio::error::operation_aborted && timed_out_ && has_sent)
    return refuse(408, "the header was not complete in time");
  if (error == HttpError::body_limit)
    return refuse(413, "the body is larger than " + std::to_string(context_.limits.max_body_bytes) +
                           " bytes");
  if (error == HttpError::header_limit || error == HttpError::buffer_overflow) {
    const std::string_view seen{static_cast<const char*>(buffer_.data().data()), buffer_.size()};
    const bool only_line = seen.find('\n') == std::string_view::npos;
    return refuse(only_line ? 414 : 431, "the request line and the headers are larger than " +
                                             std::to_string(context_.limits.max_header_bytes) +
                                             " bytes");
  }
  const bool is_gone = error == HttpError::end_of_stream || error == HttpError::partial_message ||
                       !is_http_error(error);
  if (is_gone) return close();
  refuse(400, "the request is not HTTP/1.1: " + error.message());
}

template <class Stream>
void StreamConnection<Stream>::admit() {
  auto decision = context_.service.admit(head_of(parser_->get(), address()));
  const bool has_body = !parser_->is_done();
  if (const auto* refusal = std::get_if<Response>(&decision)) {
    if (has_body) keep_alive_ = false;
    return reply(*refusal);
  }
  if (!has_body) return run(std::get<Request>(std::move(decision)));
  if (!context_.connections.begin_body())
    return refuse(503, "too many requests with a body at the same time: try again");
  request_ = std::get<Request>(std::move(decision));
  enter(Phase::body);
  continue_body();
}

template <class Stream>
void StreamConnection<Stream>::continue_body() {
  const auto expectation = parser_->get()[field::expect];
  if (expectation.empty()) return read_body();
  if (!beast::iequals(expectation, "100-continue"))
    return refuse(417, "the only expectation is 100-continue");
  limit_time(context_.limits.write_timeout);
  out_ = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(out_),
                    after([this](error_code error, auto) { error ? close() : read_body(); }));
}

template <class Stream>
void StreamConnection<Stream>::read_body() {
  limit_time(context_.limits.body_timeout);
  beast::http::async_read(stream_, buffer_, *parser_,
                          after([this](error_code error, auto) { on_body(error); }));
}

template <class Stream>
void StreamConnection<Stream>::on_body(error_code error) {
  no_time_limit();
  if (error == HttpError::body_limit)
    return refuse(413, "the body is larger than " + std::to_string(context_.limits.max_body_bytes) +
                           " bytes");
  if (error == asio::error::operation_aborted && timed_out_)
    return refuse(408, "the body was not complete in time");
  if (error == HttpError::partial_message) return close();
  if (is_http_error(error)) return refuse(400, "the body is malformed: " + error.message());
  if (error) return close();
  request_->body = std::move(parser_->get().body());
  run(*std::exchange(request_, std::nullopt));
}

// --- answering it

template <class Stream>
void StreamConnection<Stream>::run(Request&& request) {
  enter(Phase::running);
  limit_time(context_.limits.reply_timeout);
  context_.service.handle(
      std::move(request), [self = this->shared_from_this(), number = request_number_,
                           &io = context_.io](Response response) {
        asio::post(io, [self, number, response = std::move(response)] {
          const bool is_late = self->request_number_ != number || self->phase_ != Phase::running;
          if (!self->closed_ && !is_late) self->reply(response);
        });
      });
}

template <class Stream>
void StreamConnection<Stream>::refuse(int status, const std::string& detail) {
  keep_alive_ = false;
  reply(context_.service.refuse(status, detail));
}

template <class Stream>
void StreamConnection<Stream>::reply(const Response& response) {
  if (response.is_stream && !is_head_) return begin_stream(response);
  enter(Phase::writing);
  parser_.reset();
  request_.reset();
  out_ = bytes_of(response, {.without_body = is_head_, .keep_alive = keep_alive_});
  limit_time(context_.limits.write_timeout);
  asio::async_write(stream_, asio::buffer(out_),
                    after([this](error_code error, auto) { on_written(error); }));
}

template <class Stream>
void StreamConnection<Stream>::on_written(error_code error) {
  no_time_limit();
  out_ = {};
  if (error) return close();
  if (keep_alive_ && !context_.stopping) return wait_for_request();
  enter(Phase::lingering);
  buffer_.clear();
  limit_time(linger_limit);
  end_output();
}

template <class Stream>
void StreamConnection<Stream>::end_output() {
  if constexpr (std::is_same_v<Stream, tcp::socket>) {
    error_code ignored;
    stream_.shutdown(tcp::socket::shutdown_send, ignored);
    linger();
  } else {
    stream_.async_shutdown(after([this](error_code, auto) { close(); }));
  }
}

/// Discards what the client still sends, until it closes.
template <class Stream>
void StreamConnection<Stream>::linger() {
  beast::get_lowest_layer(stream_).async_read_some(
      buffer_.prepare(read_size), after([this](error_code error, auto size) {
        discarded_ += size;
        error || discarded_ > most_discarded ? close() : linger();
      }));
}

// --- an answer that does not end

template <class Stream>
void StreamConnection<Stream>::begin_stream(const Response& response) {
  if (context_.stopping || !context_.connections.begin_stream(*this))
    return refuse(503, "too many event streams are open: try again later");
  enter(Phase::streaming);
  no_time_limit();
  parser_.reset();
  keep_alive_ = false;
  error_code ignored;
  beast::get_lowest_layer(stream_).set_option(
      asio::socket_base::send_buffer_size(stream_send_buffer), ignored);
  send_event(std::make_shared<const std::string>(
      bytes_of(response, {.keep_alive = false, .without_length = true})));
  watch_for_end();
}

/// The client has nothing more to send. If it does, or closes, the stream ends.
template <class Stream>
void StreamConnection<Stream>::watch_for_end() {
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(1), after([this](error_code, auto) { close(); }));
}

template <class Stream>
void StreamConnection<Stream>::send_event(const std::shared_ptr<const std::string>& event) {
  if (closed_ || phase_ != Phase::streaming) return;
  const bool is_behind = events_.size() >= most_waiting_events ||
                         (!events_.empty() && waiting_bytes_ + event->size() > most_waiting_bytes);
  if (is_behind) return close();
  events_.push_back(event);
  waiting_bytes_ += event->size();
  if (events_.size() == 1) write_events();
}

template <class Stream>
void StreamConnection<Stream>::write_events() {
  limit_time(context_.limits.write_timeout);
  asio::async_write(stream_, asio::buffer(*events_.front()),
                    after([this](error_code error, auto) { on_event_written(error); }));
}

template <class Stream>
void StreamConnection<Stream>::on_event_written(error_code error) {
  no_time_limit();
  if (error) return close();
  waiting_bytes_ -= events_.front()->size();
  events_.pop_front();
  if (!events_.empty()) return write_events();
  if (context_.stopping) close();
}

// --- time limits

template <class Stream>
void StreamConnection<Stream>::limit_time(milliseconds limit) {
  timed_out_ = false;
  timer_.expires_after(limit);
  timer_.async_wait(after([this, number = ++timer_number_](error_code error, auto) {
    if (!error && number == timer_number_) on_time_limit();
  }));
}

template <class Stream>
void StreamConnection<Stream>::no_time_limit() {
  ++timer_number_;
  timer_.cancel();
}

template <class Stream>
void StreamConnection<Stream>::on_time_limit() {
  timed_out_ = true;
  if (phase_ == Phase::running)
    return refuse(503, "the request took too long; it may still take effect");
  const bool is_output =
      phase_ == Phase::writing || phase_ == Phase::streaming || phase_ == Phase::lingering;
  if (is_output) return close();
  error_code ignored;
  beast::get_lowest_layer(stream_).cancel(ignored);
}

template class StreamConnection<tcp::socket>;
template class StreamConnection<asio::ssl::stream<tcp::socket>>;

}  // namespace dovetail::server::http
