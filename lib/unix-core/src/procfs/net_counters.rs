//! Counters of protocols below `/proc/net`: `snmp`, `netstat`, `sockstat`, `sockstat6`.
//!
//! Between the sockets of one machine no packet is sent, so counters of packets are 0. Sockets are counted.

use alloc::format;
use alloc::string::String;

/// Counters of `snmp`, by protocol, with the values that are not 0 on a machine without traffic.
const PROTOCOLS: [(&str, &str, &str); 5] = [
    (
        "Ip",
        "Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards \
    InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs \
    FragFails FragCreates",
        "2 64",
    ),
    (
        "Icmp",
        "InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos \
    InEchoReps InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutDestUnreachs \
    OutTimeExcds OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps \
    OutTimestampReps OutAddrMasks OutAddrMaskReps",
        "",
    ),
    (
        "Tcp",
        "RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab \
    InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors",
        "1 200 120000 -1",
    ),
    (
        "Udp",
        "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti \
    MemErrors",
        "",
    ),
    (
        "UdpLite",
        "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti \
    MemErrors",
        "",
    ),
];
/// Counters of `netstat`.
const EXTENSIONS: [(&str, &str); 2] = [
    (
        "TcpExt",
        "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned \
    OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive PAWSEstab DelayedACKs \
    DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPHPHits TCPPureAcks TCPHPAcks \
    TCPRenoRecovery TCPSackRecovery TCPSACKReneging TCPSACKReorder TCPRenoReorder TCPTSReorder \
    TCPFullUndo TCPPartialUndo TCPDSACKUndo TCPLossUndo TCPLostRetransmit TCPRenoFailures \
    TCPSackFailures TCPLossFailures TCPFastRetrans TCPSlowStartRetrans TCPTimeouts TCPLossProbes \
    TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail TCPRcvCollapsed TCPBacklogCoalesce \
    TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose \
    TCPAbortOnMemory TCPAbortOnTimeout TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures \
    TCPMemoryPressuresChrono TCPSACKDiscard TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo TCPSpuriousRTOs \
    TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged TCPSackShiftFallback \
    TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter \
    TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue \
    TCPOFODrop TCPOFOMerge TCPChallengeACK TCPSYNChallenge TCPFastOpenActive TCPFastOpenActiveFail \
    TCPFastOpenPassive TCPFastOpenPassiveFail TCPFastOpenListenOverflow TCPFastOpenCookieReqd \
    TCPFastOpenBlackhole TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv \
    TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent TCPHystartTrainDetect \
    TCPHystartTrainCwnd TCPHystartDelayDetect TCPHystartDelayCwnd TCPACKSkippedSynRecv TCPACKSkippedPAWS \
    TCPACKSkippedSeq TCPACKSkippedFinWait2 TCPACKSkippedTimeWait TCPACKSkippedChallenge TCPWinProbe \
    TCPKeepAlive TCPMTUPFail TCPMTUPSuccess TCPDelivered TCPDeliveredCE TCPAckCompressed \
    TCPZeroWindowDrop TCPRcvQDrop TCPWqueueTooBig TCPFastOpenPassiveAltKey TcpTimeoutRehash \
    TcpDuplicateDataRehash TCPDSACKRecvSegs TCPDSACKIgnoredDubious TCPMigrateReqSuccess \
    TCPMigrateReqFailure",
    ),
    (
        "IpExt",
        "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets \
    InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors InNoECTPkts InECT1Pkts \
    InECT0Pkts InCEPkts ReasmOverlaps",
    ),
];
/// Place of `CurrEstab` among the counters of TCP.
const CURRENT: usize = 8;

/// How many sockets there are, by table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sockets {
    /// Streams over IPv4.
    pub tcp: usize,
    /// Streams over IPv6.
    pub tcp6: usize,
    /// Datagram sockets over IPv4.
    pub udp: usize,
    /// Datagram sockets over IPv6.
    pub udp6: usize,
    pub connected: usize,
}

/// A head line and a line of values.
fn pair(name: &str, columns: &str, value: impl Fn(usize) -> String) -> String {
    let values: String = (0..columns.split(' ').count()).map(|at| format!(" {}", value(at))).collect();
    format!("{name}: {columns}\n{name}:{values}\n")
}

/// `snmp`
pub fn snmp(sockets: Sockets) -> String {
    let lines = PROTOCOLS.iter().map(|(name, columns, first)| {
        pair(name, columns, |at| match (*name, at) {
            ("Tcp", CURRENT) => format!("{}", sockets.connected),
            _ => String::from(first.split(' ').nth(at).filter(|value| !value.is_empty()).unwrap_or("0")),
        })
    });
    lines.collect()
}

/// `netstat`
pub fn netstat() -> String {
    EXTENSIONS.iter().map(|(name, columns)| pair(name, columns, |_| String::from("0"))).collect()
}

/// `sockstat`
pub fn sockstat(sockets: Sockets) -> String {
    let Sockets { tcp, tcp6, udp, udp6, .. } = sockets;
    format!(
        "sockets: used {}\nTCP: inuse {tcp} orphan 0 tw 0 alloc {} mem 0\nUDP: inuse {udp} mem 0\nUDPLITE: inuse 0\n\
         RAW: inuse 0\nFRAG: inuse 0 memory 0\n",
        tcp + tcp6 + udp + udp6,
        tcp + tcp6
    )
}

/// `sockstat6`
pub fn sockstat6(sockets: Sockets) -> String {
    let Sockets { tcp6, udp6, .. } = sockets;
    format!("TCP6: inuse {tcp6}\nUDP6: inuse {udp6}\nUDPLITE6: inuse 0\nRAW6: inuse 0\nFRAG6: inuse 0 memory 0\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_a_value() {
        let sockets = Sockets { connected: 7, ..Sockets::default() };
        for text in [snmp(sockets), netstat()] {
            let lines: alloc::vec::Vec<&str> = text.lines().collect();
            for both in lines.chunks(2) {
                assert_eq!(both[0].split(' ').count(), both[1].split(' ').count());
            }
        }
        let text = snmp(sockets);
        let values: alloc::vec::Vec<&str> = text.lines().nth(5).unwrap_or_default().split(' ').collect();
        assert_eq!(values[..10], ["Tcp:", "1", "200", "120000", "-1", "0", "0", "0", "0", "7"]);
    }
}
