//! How a port with async methods is declared: once, with its boxed twin behind a cheap handle.

/// Declares a port: a trait whose methods return `impl Future + Send` (implementers write `async fn`), and a cheap
/// handle over any implementation, with the same methods. A layer is what stands around an implementation and changes
/// some of its methods.
macro_rules! port {
    (
        $(#[$trait_doc:meta])*
        trait $port:ident;
        $(#[$handle_doc:meta])*
        handle $handle:ident, twin $twin:ident;
        $(#[$layer_doc:meta])*
        layer $layer:ident;
        $(#[$layered_doc:meta])*
        layered $layered:ident;
        $(
            $(#[$doc:meta])*
            async fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $out:ty;
        )*
    ) => {
        $crate::port::port! {
            $(#[$trait_doc])*
            trait $port;
            $(#[$handle_doc])*
            handle $handle, twin $twin;
            $($(#[$doc])* async fn $name(&self $(, $arg: $ty)*) -> $out;)*
        }

        $(#[$layer_doc])*
        pub trait $layer: Send + Sync + 'static {
            /// What it stands around at the moment.
            fn inner(&self) -> $handle;

            /// Sees every call that is not overridden: its name, and the call itself.
            fn around<T: Send>(
                &self,
                operation: &'static str,
                call: impl Future<Output = T> + Send,
            ) -> impl Future<Output = T> + Send {
                let _ = operation;
                call
            }

            $($(#[$doc])*
            fn $name(&self $(, $arg: $ty)*) -> impl Future<Output = $out> + Send {
                let inner = self.inner();
                self.around(stringify!($name), async move { inner.$name($($arg),*).await })
            })*
        }

        $(#[$layered_doc])*
        pub struct $layered<L>(pub L);

        impl<L: $layer> $port for $layered<L> {
            $(async fn $name(&self $(, $arg: $ty)*) -> $out {
                self.0.$name($($arg),*).await
            })*
        }
    };
    (
        $(#[$trait_doc:meta])*
        trait $port:ident;
        $(#[$handle_doc:meta])*
        handle $handle:ident, twin $twin:ident;
        $(
            $(#[$doc:meta])*
            async fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $out:ty;
        )*
    ) => {
        $(#[$trait_doc])*
        pub trait $port: Send + Sync + 'static {
            $($(#[$doc])* fn $name(&self $(, $arg: $ty)*) -> impl Future<Output = $out> + Send;)*
        }

        trait $twin: Send + Sync {
            $(fn $name<'a>(&'a self $(, $arg: $ty)*) -> $crate::BoxFuture<'a, $out>;)*
        }

        impl<T: $port> $twin for T {
            $(fn $name<'a>(&'a self $(, $arg: $ty)*) -> $crate::BoxFuture<'a, $out> {
                Box::pin($port::$name(self $(, $arg)*))
            })*
        }

        $(#[$handle_doc])*
        #[derive(Clone)]
        pub struct $handle(std::sync::Arc<dyn $twin>);

        impl $handle {
            /// A handle over `implementation`.
            pub fn new(implementation: impl $port) -> Self {
                Self(std::sync::Arc::new(implementation))
            }

            $($(#[$doc])*
            pub async fn $name(&self $(, $arg: $ty)*) -> $out {
                self.0.$name($($arg),*).await
            })*
        }

        impl std::fmt::Debug for $handle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($handle))
            }
        }
    };
}

pub(crate) use port;
